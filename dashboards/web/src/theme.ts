// Dark, light, or as the system has it. Kept in this browser.

import { useEffect, useState } from "preact/hooks";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "isobar-theme";

function kept(): Theme {
  // Storage may be forbidden: then the choice lasts as long as the page.
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system";
  }
}

/** The theme, how to set it, and whether it is dark now. */
export function useTheme(): [Theme, (theme: Theme) => void, boolean] {
  const [theme, set] = useState(kept);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(dark.matches);
  useEffect(() => {
    const changed = () => setDark(dark.matches);
    dark.addEventListener("change", changed);
    return () => dark.removeEventListener("change", changed);
  }, []);
  const choose = (next: Theme) => {
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // See above.
    }
    set(next);
  };
  const shown = theme === "system" ? isDark : theme === "dark";
  document.documentElement.dataset.theme = shown ? "dark" : "light";
  return [theme, choose, shown];
}
