// What pages import from /parley/client.js.
export { connect, ParleyError } from "./client.ts";
