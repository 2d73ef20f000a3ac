import { Apps, Bell, Chevron, Info, Person } from "../ui/icons.tsx";
import { Menu, MenuItem, MenuLine } from "../ui/menu.tsx";
import { oneLine } from "../ui/tame.ts";
import { showAbout } from "./About.tsx";
import { AppLogo, pageOf } from "./AppLogo.tsx";
import { showNotifications } from "./Notifications.tsx";
import { useApps } from "./use-apps.ts";
import { useActions, useChat } from "./use-chat.ts";

/** Further apps are behind "All apps". */
const most = 8;

/** Shows which app this is, what it may do, and how to get to the others. */
export function AppMenu() {
  const { client, app: name, words } = useActions();
  const app = useChat((s) => s.app);
  const others = useApps().filter((a) => a.name !== name);
  const title = oneLine(app?.title ?? words.title, 60);
  const go = (to: string) => () => location.assign(to);
  return (
    <Menu
      align="start"
      label={`App: ${title}`}
      text={
        <>
          <span className="min-w-0 flex-1 truncate text-left text-sm font-semibold">{title}</span>
          <span className="rotate-90 text-text-muted">
            <Chevron size={14} />
          </span>
        </>
      }
      icon={<AppLogo app={app ?? { name, title }} base={client.base} />}
      className="flex h-10 min-w-0 flex-1 items-center gap-2.5 rounded-lg px-1.5 hover:bg-hover [@media(pointer:coarse)]:h-11"
    >
      <MenuItem icon={<Info />} onSelect={showAbout}>
        About this app
      </MenuItem>
      <MenuItem icon={<Bell />} onSelect={showNotifications}>
        Notifications
      </MenuItem>
      {others.length > 0 && <MenuLine />}
      <MenuItem icon={<Person />} onSelect={go(`${client.base}account.html`)}>
        Your account
      </MenuItem>
      {others.slice(0, most).map((a) => (
        <MenuItem key={a.name} icon={<AppLogo app={a} base={client.base} size={18} />} onSelect={go(pageOf(a, client.base))}>
          <span className="max-w-56 truncate">{oneLine(a.title || a.name, 60)}</span>
        </MenuItem>
      ))}
      {others.length > 0 && <MenuLine />}
      {others.length > 0 && (
        <MenuItem icon={<Apps />} onSelect={go(client.base)}>
          All apps
        </MenuItem>
      )}
    </Menu>
  );
}
