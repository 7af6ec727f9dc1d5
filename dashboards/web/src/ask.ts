// Questions about the recording that take a while: asked by a button, one at a time.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Asked<T> {
  data: T | null;
  /** Why there is none, in the agent's words. */
  error: string | null;
  isBusy: boolean;
  ask: (path: string) => void;
}

export function useAsk<T>(): Asked<T> {
  const [state, set] = useState<Omit<Asked<T>, "ask">>({ data: null, error: null, isBusy: false });
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const ask = (path: string) => {
    running.current?.abort();
    const own = new AbortController();
    running.current = own;
    set(({ data }) => ({ data, error: null, isBusy: true }));
    const answered = async () => {
      const response = await fetch(path, { signal: own.signal });
      const body = await response.json();
      if (!response.ok) throw new Error(body.message);
      set({ data: body, error: null, isBusy: false });
    };
    answered().catch((why: Error) => {
      if (!own.signal.aborted) set({ data: null, error: why instanceof TypeError ? "There was no answer." : why.message, isBusy: false });
    });
  };
  return { ...state, ask };
}

/** Stretches of time that a question may be about, in seconds. */
export const STRETCHES = [
  [600, "10 minutes"],
  [3_600, "1 hour"],
  [21_600, "6 hours"],
  [86_400, "24 hours"],
] as const;

/** The parameters of a stretch that ends at a moment. */
export function stretch(seconds: number, end: number): string {
  const iso = (wall: number) => new Date(Math.floor(wall / 1e6) + 1).toISOString();
  return `begin=${iso(end - seconds * 1e9)}&end=${iso(end)}`;
}
