// Dark or light: what the system says, until the reader says otherwise.

import { useEffect, useState } from "preact/hooks";

const KEY = "etlink-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** The theme in use, and what changes it. */
export function useTheme(): [string, () => void] {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(system.matches);
  const [chosen, choose] = useState(stored());
  useEffect(() => {
    const follow = () => setDark(system.matches);
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, []);
  const theme = chosen ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const turn = () => {
    const other = theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, other);
    } catch {
      // the choice lasts as long as the page
    }
    choose(other);
  };
  return [theme, turn];
}
