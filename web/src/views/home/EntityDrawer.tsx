import { Dialog } from "../../ui/dialog.tsx";
import EntityPanel from "./EntityPanel.tsx";
import { showPanel, useHome } from "./use-home.ts";

/** The house panel over the chat, if there is no room beside it. */
export default function EntityDrawer() {
  const { panel } = useHome();
  return (
    <Dialog side flush title="House" onClose={() => showPanel(panel, false)}>
      <EntityPanel bare />
    </Dialog>
  );
}
