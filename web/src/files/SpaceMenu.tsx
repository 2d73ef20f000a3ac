import type { Listed } from "../chat/listed.ts";
import { useChat } from "../chat/use-chat.ts";
import { Chevron, Folder, Person } from "../ui/icons.tsx";
import { Menu, MenuChoice } from "../ui/menu.tsx";
import { oneLine } from "../ui/tame.ts";
import { shortName, useFiles, useFilesState } from "./use-files.ts";

/** Whose files are shown, and which folder. A session keeps its own, so another choice begins a new one. */
export function SpaceMenu({ chat, onChosen }: { chat: Listed; onChosen(): void }) {
  const files = useFiles();
  const spaces = useFilesState((s) => s.spaces) ?? [];
  const space = useFilesState((s) => s.space);
  const opened = useChat((s) => s.opened.records.workspace);
  if (!space || (spaces.length < 2 && space.kind !== "granted")) return null;
  const what = space.kind === "granted" ? "Person" : "Workspace";
  const icon = space.kind === "granted" ? <Person size={16} /> : <Folder size={16} />;
  const name = oneLine(shortName(space.name), 60);
  const box = "mx-3 mt-2 flex h-9 items-center gap-2 rounded-lg border border-border px-2.5 text-sm [@media(pointer:coarse)]:h-11";
  if (spaces.length < 2) {
    return (
      <p className={box}>
        <span className="text-text-muted">{icon}</span>
        <span className="sr-only">{what}: </span>
        <bdi className="min-w-0 truncate">{name}</bdi>
        {space.read_only && <span className="ml-auto text-xs text-text-muted">read-only</span>}
      </p>
    );
  }
  return (
    <Menu
      align="start"
      label={`${what}: ${name}`}
      icon={<span className="text-text-muted">{icon}</span>}
      text={
        <>
          <bdi className="min-w-0 flex-1 truncate text-left font-medium">{name}</bdi>
          {space.read_only && <span className="text-xs text-text-muted">read-only</span>}
          <span className="rotate-90 text-text-muted">
            <Chevron size={14} />
          </span>
        </>
      }
      className={`${box} hover:bg-hover`}
    >
      {spaces.map((s) => (
        <MenuChoice
          key={s.name}
          icon={s.kind === "granted" ? <Person size={16} /> : <Folder size={16} />}
          chosen={s.name === space.name}
          onSelect={() => {
            files.choose(s.name);
            if (opened === s.name || s.name === space.name) return;
            chat.workspace = s.name;
            chat.newChat();
            onChosen();
          }}
        >
          <bdi>{oneLine(shortName(s.name), 60)}</bdi>
        </MenuChoice>
      ))}
    </Menu>
  );
}
