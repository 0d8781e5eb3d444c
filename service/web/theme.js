// Light or dark: as the system has it, or as the user has chosen.

const STORED = "seckill.theme";
const NEXT = { auto: "dark", dark: "light", light: "auto" };

const chosen = () => {
  const stored = localStorage.getItem(STORED);
  return stored in NEXT ? stored : "auto";
};

// The button goes through the three choices; onChange() runs whenever the colours are others.
export function themeButton(button, onChange) {
  const apply = () => {
    document.documentElement.dataset.theme = chosen();
    button.textContent = `Theme: ${chosen()}`;
    onChange();
  };
  button.addEventListener("click", () => {
    localStorage.setItem(STORED, NEXT[chosen()]);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
  apply();
}
