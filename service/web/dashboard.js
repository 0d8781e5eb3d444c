// Shows what the daemon says each second.
"use strict";

const state = document.getElementById("state");
new EventSource("dashboard/live").addEventListener("state", (event) => {
  state.textContent = JSON.stringify(JSON.parse(event.data), null, 2);
});
