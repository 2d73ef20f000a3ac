import { useCallback, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { useStore } from "zustand";

import { toApiError, type ApiError } from "../api/client.ts";
import type { EntityGraph } from "../api/lakes.ts";
import { useFilesState } from "../files/use-files.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Close, Minus, Plus, Target } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { count, sentence } from "../ui/text.ts";
import { useMedia } from "../ui/use-media.ts";
import { drawingOf, fit, settle, simulate, spotAt, zoomed, type Drawing, type Spot, type View } from "./graph.ts";
import type { Lake } from "./lake.ts";
import { paint, tintOf, type Look } from "./paint.ts";

/** How long the layout may compute in one frame, in ms. */
const slice = 10;
/** Where motion is not wanted, the layout is computed before it is shown, for so long at most. */
const still = 1500;

/** The links of a lake as a drawing, and beside it as a list. */
export default function GraphDialog({ lake, onClose, onOpen }: { lake: Lake; onClose(): void; onOpen(path: string): void }) {
  const filter = useStore(lake.store, (s) => s.filter);
  const opened = useFilesState((f) => f.doc?.path);
  const [graph, setGraph] = useState<EntityGraph | ApiError>();
  const [depth, setDepth] = useState(0);
  const [chosen, setChosen] = useState<string | undefined>(opened);
  const [tries, setTries] = useState(0);

  useEffect(() => {
    const stop = new AbortController();
    lake.at.graph(lake.space, filter, stop.signal).then(setGraph, (cause: unknown) => stop.signal.aborted || setGraph(toApiError(cause)));
    return () => stop.abort();
  }, [lake, filter, tries]);

  const known = graph !== undefined && !(graph instanceof Error);
  const focus = depth > 0 ? chosen : undefined;
  const drawing = useMemo(() => (known ? drawingOf(graph, focus === undefined ? undefined : { path: focus, depth }) : undefined), [graph, known, focus, depth]);
  const spot = drawing?.spots.find((s) => s.path === chosen);
  return (
    <Dialog wide bare title="Links of the lake" onClose={onClose}>
      <div className="flex h-[calc(100dvh-2rem)] flex-col">
        <header className="flex shrink-0 flex-wrap items-center gap-x-2 border-b border-border py-1.5 pr-2 pl-4">
          <h2 className="min-w-0 flex-1 text-sm leading-5 font-semibold">
            Links of the lake
            {drawing && <span className="block text-xs font-normal text-text-muted">{`${count(drawing.spots.length)} entities, ${count(drawing.lines.length)} links`}</span>}
          </h2>
          <label className="flex items-center gap-1.5 text-xs text-text-muted max-sm:order-last max-sm:w-full">
            Around the chosen one
            <select value={depth} disabled={chosen === undefined} onChange={(e) => setDepth(Number(e.currentTarget.value))} className="h-8 rounded-lg border border-border bg-bg px-1.5 text-text-primary disabled:opacity-50 [@media(pointer:coarse)]:h-11">
              <option value={0}>everything</option>
              <option value={1}>1 link</option>
              <option value={2}>2 links</option>
              <option value={3}>3 links</option>
            </select>
          </label>
          <IconButton label="Close" onClick={onClose}>
            <Close />
          </IconButton>
        </header>
        {graph instanceof Error ? (
          <div role="alert" className="m-auto max-w-80 p-6 text-center text-sm">
            <p>{sentence(graph.message)}</p>
            <p className="mb-3 text-text-muted">{sentence(graph.hint)}</p>
            <Button onClick={() => (setGraph(undefined), setTries(tries + 1))}>Try again</Button>
          </div>
        ) : !drawing ? (
          <p role="status" className="m-auto text-sm text-text-muted">
            Reading the links…
          </p>
        ) : drawing.spots.length === 0 ? (
          <p className="m-auto text-sm text-text-muted">There is nothing to draw.</p>
        ) : (
          <div className="flex min-h-0 flex-1 max-sm:flex-col">
            <Canvas drawing={drawing} chosen={chosen} onChoose={setChosen} onOpen={onOpen} />
            <Beside drawing={drawing} spot={spot} cut={known && graph.cut === true} onChoose={setChosen} onOpen={onOpen} />
          </div>
        )}
      </div>
    </Dialog>
  );
}

function Canvas({ drawing, chosen, onChoose, onOpen }: { drawing: Drawing; chosen: string | undefined; onChoose(path: string | undefined): void; onOpen(path: string): void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>({ x: 0, y: 0, k: 1 });
  const own = useRef(false); // somebody has moved the view, so that it is not fitted any more
  const over = useRef<string | undefined>(undefined);
  const again = useRef<() => void>(() => undefined);
  const fingers = useRef(new Map<number, { x: number; y: number }>());
  const moved = useRef(0);
  const calm = useMedia("(prefers-reduced-motion: reduce)");
  const help = useId();
  const picked = useRef(chosen);
  picked.current = chosen;

  useEffect(() => {
    const c = canvas.current;
    if (!c) return;
    const sim = simulate(drawing);
    let frame = 0;
    own.current = false;
    const look = lookOf(c);
    const draw = () => {
      const { width, height } = c.getBoundingClientRect();
      const ratio = devicePixelRatio || 1;
      if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) [c.width, c.height] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (!own.current) view.current = fit(drawing.spots, width, height);
      const on = c.getContext("2d");
      if (!on) return;
      on.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint(on, drawing, view.current, { width, height }, look(), picked.current, over.current);
    };
    const step = () => {
      frame = 0;
      const goes = settle(sim, slice);
      draw();
      if (goes) frame = requestAnimationFrame(step);
    };
    again.current = () => {
      if (frame === 0) frame = requestAnimationFrame(step);
    };
    if (calm) settle(sim, still);
    step();
    const size = new ResizeObserver(() => again.current());
    size.observe(c);
    const theme = new MutationObserver(() => again.current());
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const wheel = (e: WheelEvent) => {
      e.preventDefault();
      own.current = true;
      view.current = zoomed(view.current, Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.0015)), e.offsetX, e.offsetY);
      again.current();
    };
    c.addEventListener("wheel", wheel, { passive: false });
    return () => {
      cancelAnimationFrame(frame);
      size.disconnect();
      theme.disconnect();
      c.removeEventListener("wheel", wheel);
    };
  }, [drawing, calm]);
  useEffect(() => again.current(), [chosen]);

  const near = useCallback((by: number) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return;
    own.current = true;
    view.current = zoomed(view.current, by, box.width / 2, box.height / 2);
    again.current();
  }, []);
  const whole = () => {
    own.current = false;
    again.current();
  };
  const place = (e: PointerEvent<HTMLCanvasElement>) => {
    const box = e.currentTarget.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  const move = (e: PointerEvent<HTMLCanvasElement>) => {
    const at = place(e);
    const before = fingers.current.get(e.pointerId);
    if (!before) {
      const found = spotAt(drawing.spots, view.current, at.x, at.y)?.path;
      if (found === over.current) return;
      over.current = found;
      e.currentTarget.style.cursor = found === undefined ? "grab" : "pointer";
      again.current();
      return;
    }
    moved.current += Math.hypot(at.x - before.x, at.y - before.y);
    const other = [...fingers.current].find(([id]) => id !== e.pointerId)?.[1];
    fingers.current.set(e.pointerId, at);
    if (moved.current < 4) return;
    own.current = true;
    if (other) {
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(at.x - other.x, at.y - other.y);
      if (was > 0 && is > 0) view.current = zoomed(view.current, is / was, (at.x + other.x) / 2, (at.y + other.y) / 2);
    } else {
      view.current = { ...view.current, x: view.current.x + at.x - before.x, y: view.current.y + at.y - before.y };
    }
    again.current();
  };
  const up = (e: PointerEvent<HTMLCanvasElement>) => {
    const held = fingers.current.delete(e.pointerId);
    if (!held || moved.current >= 4 || e.type === "pointercancel") return;
    const at = place(e);
    const spot = spotAt(drawing.spots, view.current, at.x, at.y, e.pointerType === "touch" ? 18 : 6);
    // Touched once it is chosen, and touched again it opens.
    if (spot && spot.path === picked.current) onOpen(spot.path);
    else onChoose(spot?.path);
  };
  const key = (e: KeyboardEvent) => {
    const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[e.key];
    if (step) {
      own.current = true;
      view.current = { ...view.current, x: view.current.x + (step[0] ?? 0), y: view.current.y + (step[1] ?? 0) };
      again.current();
    } else if (e.key === "+" || e.key === "=") near(1.25);
    else if (e.key === "-") near(0.8);
    else if (e.key === "0") whole();
    else return;
    e.preventDefault();
  };
  return (
    <div className="relative min-h-40 min-w-0 flex-1">
      <canvas
        ref={canvas}
        role="img"
        tabIndex={0}
        aria-label="The entities and their links as a drawing"
        aria-describedby={help}
        onKeyDown={key}
        onPointerDown={(e) => {
          e.currentTarget.setPointerCapture(e.pointerId);
          if (fingers.current.size === 0) moved.current = 0;
          fingers.current.set(e.pointerId, place(e));
        }}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={up}
        onPointerLeave={() => {
          over.current = undefined;
          again.current();
        }}
        className="absolute inset-0 h-full w-full touch-none -outline-offset-2"
      />
      <p id={help} className="sr-only">
        The arrow keys move it, plus and minus change its size, and 0 shows all of it. The same links are in the list beside it.
      </p>
      <div className="absolute right-2 bottom-2 flex flex-col gap-1 rounded-lg border border-border bg-surface p-0.5">
        <IconButton label="Larger" onClick={() => near(1.4)}>
          <Plus size={16} />
        </IconButton>
        <IconButton label="Smaller" onClick={() => near(1 / 1.4)}>
          <Minus size={16} />
        </IconButton>
        <IconButton label="Show all of it" onClick={whole}>
          <Target size={16} />
        </IconButton>
      </div>
      <ul aria-label="Kinds" className="pointer-events-none absolute bottom-2 left-3 flex max-w-[70%] flex-wrap gap-x-3 gap-y-0.5 text-xs text-text-muted">
        {drawing.kinds.slice(0, 12).map((kind) => (
          <li key={kind} className="flex items-center gap-1.5">
            <Key kind={kind} kinds={drawing.kinds} />
            <bdi>{oneLine(kind || "none", 30)}</bdi>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The sign of a kind, as the drawing has it. */
function Key({ kind, kinds }: { kind: string; kinds: readonly string[] }) {
  const { tint, shape } = tintOf(kind, kinds);
  const fill = `var(${tint})`;
  return (
    <svg aria-hidden="true" width="10" height="10" viewBox="-5 -5 10 10">
      {shape === "circle" ? <circle r="4" fill={fill} /> : shape === "square" ? <rect x="-3.6" y="-3.6" width="7.2" height="7.2" fill={fill} /> : <path d={shape === "diamond" ? "M0-5 5 0 0 5-5 0Z" : "M0-4.6 4.6 3.6H-4.6Z"} fill={fill} />}
    </svg>
  );
}

/** Entities as a list: those that the chosen one is linked with, or all, those with the most links first. */
function Beside({ drawing, spot, cut, onChoose, onOpen }: { drawing: Drawing; spot: Spot | undefined; cut: boolean; onChoose(path: string | undefined): void; onOpen(path: string): void }) {
  const list = useMemo(() => {
    const near = spot && drawing.near.get(spot.path);
    return [...drawing.spots].filter((s) => !near || near.has(s.path)).sort((a, b) => b.links - a.links || a.title.localeCompare(b.title)).slice(0, 200);
  }, [drawing, spot]);
  return (
    <aside aria-label="Entities" className="flex min-h-0 flex-col border-border max-sm:h-2/5 max-sm:border-t sm:w-64 sm:border-l">
      {spot ? (
        <div className="border-b border-border p-3 text-sm">
          <p className="font-medium wrap-anywhere">
            <bdi>{oneLine(spot.title || spot.path, 160)}</bdi>
          </p>
          <p className="truncate text-xs text-text-muted">
            <bdi>{oneLine(spot.path, 160)}</bdi>
          </p>
          <p className="mt-2 flex gap-2">
            <Button kind="accent" className="h-8! [@media(pointer:coarse)]:h-11!" onClick={() => onOpen(spot.path)}>
              Open
            </Button>
            <Button kind="quiet" className="h-8! [@media(pointer:coarse)]:h-11!" onClick={() => onChoose(undefined)}>
              Show all
            </Button>
          </p>
        </div>
      ) : null}
      <p className="px-3 pt-2 text-xs text-text-muted">{spot ? (list.length === 0 ? "It is linked with nothing." : "Linked with") : cut ? "The lake is too large to be drawn whole." : "The most linked"}</p>
      <ul className="min-h-0 flex-1 overflow-y-auto py-1">
        {list.map((s) => (
          <li key={s.path}>
            <button type="button" title={s.path} onClick={() => onChoose(s.path)} className="flex min-h-8 w-full items-center gap-2 px-3 text-left text-sm -outline-offset-2 hover:bg-hover [@media(pointer:coarse)]:min-h-11">
              <Key kind={s.kind} kinds={drawing.kinds} />
              <bdi className="min-w-0 flex-1 truncate">{oneLine(s.title || s.path, 120)}</bdi>
              <span className="text-xs text-text-muted">
                {count(s.links)}
                <span className="sr-only"> links</span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </aside>
  );
}

/** Reads the colours of the theme once per drawing. */
function lookOf(on: Element): () => Look {
  return () => {
    const style = getComputedStyle(on);
    return { get: (name) => style.getPropertyValue(name).trim() || "#888", font: style.getPropertyValue("--font-sans") || "sans-serif" };
  };
}
