// Runs tools of an agent on this machine: it claims calls that are offered, and reports.
import { appendFile, readFile } from 'node:fs/promises'

const server = process.env.PARLEY_URL ?? 'http://127.0.0.1:8000'
const key = process.env.PARLEY_KEY // for a server that asks who it is
const notes = process.env.NOTES ?? 'notes.txt'
const pause = () => new Promise((done) => setTimeout(done, 500))

const tools = {
  read_notes: () => readFile(notes, 'utf8').catch(() => 'There are no notes yet.'),
  add_note: ({ text }) => appendFile(notes, `${text}\n`).then(() => 'It is written down.'),
}

// ask returns what the server answers, and tries again while it is away.
async function ask(path, body) {
  const headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) }
  for (;;) {
    const answer = await fetch(server + path, { headers, ...(body && { method: 'POST', body: JSON.stringify(body) }) }).catch(() => undefined)
    if (answer && answer.status < 500) return answer.ok ? answer.json() : undefined
    await pause()
  }
}

for (;; await pause()) {
  for (const { id, kind, tool } of (await ask('/v1/interactions'))?.interactions ?? []) {
    if (kind !== 'client' || !tools[tool]) continue
    const call = await ask(`/v1/interactions/${id}/claim`, { token: crypto.randomUUID() })
    if (!call) continue // another client has it
    const report = await tools[tool](call.input).then((output) => ({ output }), (error) => ({ outcome: 'unknown', output: error.message }))
    const said = await ask(`/v1/interactions/${id}/report`, { token: call.token, ...report })
    console.log(tool, said?.outcome ?? 'came too late')
  }
}
