// A Vue page with two routes: one has the panel as a component, the other has not. In a transition the next one is there
// before the last one goes.

import { createApp, defineComponent, h, onMounted, onUnmounted, ref, Transition } from "vue";

import type { Mounted, Sidecar } from "../../public/sidecar.d.ts";

const Panel = defineComponent({
  setup() {
    let it: Mounted | undefined;
    onMounted(() => (it = (window.ParleySidecar as Sidecar).mount({ title: "Vue's assistant" })));
    onUnmounted(() => it?.unmount());
    return () => h("span", "panel");
  },
});

const root = document.createElement("div");
document.body.append(root);
createApp({
  setup() {
    const route = ref("with");
    const to = (name: string, label: string) => h("button", { onClick: () => (route.value = name) }, label);
    return () =>
      h("main", [
        h("h1", route.value),
        to("with", "Route with"),
        to("other", "Other route with"),
        to("without", "Route without"),
        h(Transition, { css: false }, () => (route.value === "without" ? h("i", { key: "none" }) : h(Panel, { key: route.value }))),
      ]);
  },
}).mount(root);
