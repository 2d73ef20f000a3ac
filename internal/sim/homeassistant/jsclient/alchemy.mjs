// Boots @digital-alchemy/hass against a house: an application of its own, with all
// that the library does before it says that it is ready. It adds its questions to ops.
import { CreateApplication } from "@digital-alchemy/core";
import { LIB_HASS } from "@digital-alchemy/hass";

// What the library complains of. It says it instead of throwing: a call that was
// refused is logged, and its promise never settles.
const complaints = [];
let onComplaint = () => {};
const complain = (...said) => {
  complaints.push(said);
  onComplaint(said);
};
const complained = () => new Promise((_, no) => (onComplaint = ([, about]) => no(about.message?.error ?? new Error(String(about)))));
const quiet = () => {};
const log = { trace: quiet, debug: quiet, info: quiet, warn: complain, error: complain, fatal: complain };

export async function boot(ops, { url, token }) {
  let hass;
  const changes = [];
  const heard = new Set(); // who waits for a change
  const until = (check) =>
    new Promise((resolve) => {
      const look = () => check() && (heard.delete(look), resolve());
      heard.add(look);
      look();
    });

  const app = CreateApplication({
    libraries: [LIB_HASS],
    name: "parley_test",
    services: {
      main({ hass: h }) {
        hass = h;
        h.socket.onEvent({
          context: "main",
          event: "state_changed",
          exec({ data }) {
            changes.push([data.entity_id, data.new_state.state]);
            [...heard].forEach((look) => look());
          },
        });
      },
    },
  });
  await app.bootstrap({
    configSources: { argv: false, env: false, file: false },
    configuration: { hass: { BASE_URL: url, RETRY_INTERVAL: 1, TOKEN: token } },
    customLogger: log,
    handleGlobalErrors: false,
  });

  const lists = {
    agents: () => hass.conversation.listAgents(),
    areas: () => hass.area.list(),
    backups: () => hass.backup.list(),
    config: () => hass.fetch.getConfig(),
    devices: () => hass.device.list(),
    entries: () => hass.configure.get(),
    floors: () => hass.floor.list(),
    labels: () => hass.label.list(),
    manifests: () => hass.registry.manifestList(),
    registry: () => hass.entity.registry.list(),
    sources: () => hass.entity.registry.source(),
    themes: () => hass.frontend.getThemes(),
    zones: () => hass.zone.list(),
  };
  Object.assign(ops, {
    alchemy_list: ({ what }) => Promise.race([lists[what](), complained()]),
    // What the library keeps of itself once it is ready.
    alchemy_has: () => ({
      areas: hass.area.current.length,
      devices: hass.device.current.length,
      entities: hass.entity.listEntities().length,
      floors: hass.floor.current.length,
      labels: hass.label.current.length,
      registry: hass.entity.registry.current.length,
      zones: hass.zone.current.length,
    }),
    alchemy_state: ({ id }) => hass.entity.getCurrentState(id).state,
    alchemy_history: ({ id, from, to }) => hass.fetch.fetchEntityHistory(id, new Date(from), new Date(to)),
    async alchemy_call({ domain, service, data }) {
      await hass.call[domain][service](data);
    },
    async alchemy_change({ id, state }) {
      await until(() => changes.some(([of, is]) => of === id && is === state));
      return hass.entity.getCurrentState(id).state;
    },
    // A message as applications send their own; what comes of a refusal is a complaint.
    async alchemy_send({ message }) {
      onComplaint = () => {};
      const before = complaints.length;
      void hass.socket.sendMessage(message);
      await hass.socket.sendMessage({ type: "get_config" }); // a connection's messages are answered in order
      return complaints.slice(before).map(([, { message: m }]) => m.error);
    },
    alchemy_complaints: () => complaints,
    alchemy_end: () => app.teardown(),
  });
  return hass.socket.connectionState;
}
