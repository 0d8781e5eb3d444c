// The strip that says whether all is well, the list of events, and what a screen reader is told.
import { List, find, make, setData, setText, show } from "./dom.js";
import { clock, plural } from "./format.js";

const EVENTS_KEPT = 100;
const MARKS = { bad: "✕", warn: "!", good: "✓" };

function alarmView() {
  const text = make("span");
  const mark = make("span", { class: "mark", "aria-hidden": "true" });
  const element = make("li", {}, mark, text);
  return {
    element,
    update(condition) {
      setData(element, "level", condition.level);
      setText(mark, MARKS[condition.level]);
      setText(text, condition.text);
    },
  };
}

const alarms = new List(find("alarm-list"), ({ key }) => key, alarmView);

function headline(conditions, calm) {
  const wrong = conditions.filter(({ level }) => level === "bad").length;
  const odd = conditions.length - wrong;
  if (wrong > 0) {
    return ["bad", `${plural(wrong, "thing is", "things are")} wrong`];
  }
  return odd > 0 ? ["warn", `${plural(odd, "thing", "things")} to look at`] : ["good", calm];
}

// The whole strip, and the window's title, which is seen while another tab is.
export function showConditions(conditions, calm) {
  const [level, text] = headline(conditions, calm);
  setData(find("alarms"), "state", level);
  setText(find("alarms-title"), text);
  show(find("alarm-list"), conditions.length > 0);
  alarms.update(conditions);
  const title = level === "good" ? "seckill" : `${MARKS[level]} ${conditions[0].text} · seckill`;
  if (document.title !== title) {
    document.title = title;
  }
}

// Lines of the list of events; the words go to screen readers, the urgent ones at once.
export function note(changes, now) {
  if (changes.length === 0) {
    return;
  }
  const list = find("events");
  for (const [level, text] of changes) {
    const mark = make("span", { class: "mark", "aria-hidden": "true", text: MARKS[level] });
    const time = make("time", { text: clock(now) });
    list.prepend(make("li", { "data-level": level }, time, mark, make("span", { text })));
  }
  while (list.children.length > EVENTS_KEPT) {
    list.lastElementChild.remove();
  }
  announce("urgent", changes.filter(([level]) => level === "bad"));
  announce("polite", changes.filter(([level]) => level !== "bad"));
}

function announce(region, changes) {
  if (changes.length > 0) {
    find(region).textContent = changes.map(([, text]) => text).join(". ");
  }
}
