import { expect, test } from "vitest";

import type { Rule } from "../../api/types.gen.ts";
import { nameOf } from "./rules.ts";

test.each<[Rule, string]>([
  [{ verdict: "allow", tool: "send_mail" }, "send_mail"],
  [{ verdict: "allow", tool: "ha_call_service(light.turn_on)", reaches: ["light.desk", "light.bed"] }, "ha_call_service(light.turn_on): light.desk, light.bed"],
  [{ verdict: "allow", tool: "sampling:shelf" }, "replies of the model to the server shelf"],
])("%o is %s", (rule, name) => expect(nameOf(rule)).toBe(name));
