// A house for the page, in place of the server's. Its states change when a test says so.

import type { ServerResponse } from "node:http";

const minute = 60_000;

interface Entity {
  entity_id: string;
  name: string;
  domain: string;
  device_class?: string;
  state: string;
  unit?: string;
  last_changed: string;
  available: boolean;
}

function entity(id: string, name: string, state: string, more: Partial<Entity> = {}): Entity {
  return { entity_id: id, name, domain: id.split(".")[0] ?? "", state, last_changed: new Date(Date.now() - 12 * minute).toISOString(), available: true, ...more };
}

const areas = () => [
  {
    id: "bedroom",
    name: "Bedroom",
    entities: [
      entity("light.bedroom_ceiling", "Ceiling light", "on"),
      entity("light.bedroom_lamp", "Lamp", "off"),
      entity("sensor.bedroom_temperature", "Temperature", "20.6", { device_class: "temperature", unit: "°C" }),
      entity("sensor.bedroom_humidity", "Humidity", "47", { device_class: "humidity", unit: "%" }),
      entity("binary_sensor.bedroom_window", "Window", "off", { device_class: "window" }),
      entity("cover.bedroom_blind", "Blind", "closed"),
    ],
  },
  {
    id: "kitchen",
    name: "Kitchen",
    entities: [
      entity("light.kitchen", "Counter light", "off"),
      entity("switch.coffee_machine", "Coffee machine", "on"),
      entity("sensor.fridge_temperature", "Fridge", "4.8", { device_class: "temperature", unit: "°C" }),
      entity("binary_sensor.kitchen_leak", "Leak sensor", "off", { device_class: "moisture" }),
      entity("binary_sensor.kitchen_motion", "Motion", "on", { device_class: "motion" }),
    ],
  },
  {
    id: "utility",
    name: "Utility room",
    entities: [
      entity("sensor.mains_voltage", "Mains voltage", "231.4", { device_class: "voltage", unit: "V" }),
      entity("sensor.power", "Power", "842", { device_class: "power", unit: "W" }),
      entity("switch.water_heater", "Water heater", "unavailable", { available: false }),
      entity("sensor.uptime", "Last restart", new Date(Date.now() - 26 * 3600_000).toISOString(), { device_class: "timestamp" }),
    ],
  },
  { id: "", name: "", entities: [entity("person.ana", "Ana", "home"), entity("weather.home", "Weather", "partly_cloudy"), entity("lock.front_door", "Front door", "locked")] },
];

/** A day of plausible values, the same each time. */
function day(id: string, around: number, swing: number): [number, number][] {
  const seed = [...id].reduce((n, c) => n + c.charCodeAt(0), 0);
  const now = Date.now();
  return Array.from({ length: 144 }, (_, i) => {
    const t = now - (143 - i) * 10 * minute;
    const wave = Math.sin((i + seed) / 23) + 0.35 * Math.sin((i * seed) / 7);
    const dip = id === "sensor.mains_voltage" && i === 88 ? -7 : 0;
    return [t, Math.round((around + swing * (wave * 0.5 + dip)) * 10) / 10];
  });
}

/** The house in the form of /apps/home/entities. */
export class FakeHouse {
  /** If not 0, every request gets this status. */
  refuse = 0;
  readonly asked: string[] = [];
  readonly #streams = new Set<ServerResponse>();

  serve(path: string, response: ServerResponse): void {
    this.asked.push(path);
    const json = (body: unknown, status = 200) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (this.refuse > 0) {
      const code = this.refuse === 404 ? "not_found" : "unavailable";
      json({ error: { code, message: "Home Assistant does not answer", hint: "check that it runs" } }, this.refuse);
    } else if (path.endsWith("/stream")) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      this.#streams.add(response);
      response.once("close", () => this.#streams.delete(response));
      this.#write(response, { connected: true, age_ms: 0 });
    } else if (path.endsWith("/history")) {
      json(historyOf(decodeURIComponent(path.split("/").at(-2) ?? "")));
    } else {
      json({ connected: true, indexed_at: new Date().toISOString(), age_ms: 0, areas: areas() });
    }
  }

  #write(response: ServerResponse, change: unknown): void {
    response.write(`data: ${JSON.stringify(change)}\n\n`);
  }

  /** Sends a change to all followers. */
  say(change: unknown): void {
    for (const s of this.#streams) this.#write(s, change);
  }

  /** Ends every stream. */
  cut(): void {
    for (const s of this.#streams) s.destroy();
  }
}

function historyOf(id: string): unknown {
  const e = areas()
    .flatMap((a) => a.entities)
    .find((x) => x.entity_id === id);
  const value = Number(e?.state);
  if (e && !Number.isNaN(value)) return { points: day(id, value, e.unit === "V" ? 3 : value * 0.15), states: [] };
  if (!e || ["sensor", "weather", "lock"].includes(e.domain)) return { points: [], states: [] };
  const seed = [...id].reduce((n, c) => n + c.charCodeAt(0), 0);
  const quiet = ["off", "closed"].includes(e.state);
  const flips = [23 - (seed % 5), 17 - (seed % 3), 14.5 - (seed % 4) / 2, 8 - (seed % 3), 3.5, (seed % 7) / 5 + 0.3];
  return { points: [], states: flips.map((h, i) => [Date.now() - h * 60 * minute, (i % 2 === 0) === quiet ? "on" : e.state === "on" || quiet ? "off" : "away"]) };
}
