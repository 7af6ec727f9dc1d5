// Dark, light, or as the system has it. Kept in this browser.

import { useEffect, useState } from "preact/hooks";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const KEY = "isobar-theme";

function kept(): Theme {
  // Storage may be forbidden: then the choice lasts as long as the page.
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system";
  }
}

/** The theme, what takes the next one, and whether it is dark now. */
export function useTheme(): [Theme, () => void, boolean] {
  const [theme, set] = useState(kept);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(dark.matches);
  useEffect(() => {
    const changed = () => setDark(dark.matches);
    dark.addEventListener("change", changed);
    return () => dark.removeEventListener("change", changed);
  }, []);
  // Each press counts, however soon it follows on the last: from what is set, not from what is drawn.
  const turn = () =>
    set((before) => {
      const next = THEMES[(THEMES.indexOf(before) + 1) % THEMES.length] ?? "system";
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // See above.
      }
      return next;
    });
  const shown = theme === "system" ? isDark : theme === "dark";
  document.documentElement.dataset.theme = shown ? "dark" : "light";
  return [theme, turn, shown];
}
