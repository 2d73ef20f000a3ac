// A service whose functions are tools of an agent: it keeps contacts in memory.
// It checks who calls, makes no call twice, and says what became of one when asked.
import { createServer } from 'node:http'
import { Webhook } from 'standardwebhooks'

const signed = new Webhook(process.env.CONTACTS_SECRET)
const contacts = [{ name: 'Ana Lima', mail: 'ana@example.com' }]
const done = new Map() // what was answered, by call

const tools = {
  find_contact: ({ name }) => contacts.filter((c) => c.name.toLowerCase().includes(name.toLowerCase())),
  add_contact: ({ name, mail }) => {
    if (!mail.includes('@')) throw new Error(`${mail} is no mail address`)
    contacts.push({ name, mail })
    return `${name} is contact ${contacts.length}.`
  },
}

const server = createServer(async (request, response) => {
  const answer = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  let body = ''
  request.setEncoding('utf8')
  for await (const part of request) body += part
  try {
    signed.verify(body, request.headers)
  } catch {
    return answer(401, { error: { message: 'the signature is wrong', hint: 'both sides need the same CONTACTS_SECRET' } })
  }
  const { type, data } = JSON.parse(body)
  if (type === 'tool.reconcile') return answer(200, { happened: done.has(data.call), output: done.get(data.call) })
  try {
    if (!done.has(data.call)) done.set(data.call, tools[data.tool](data.input))
    answer(200, done.get(data.call))
  } catch (error) {
    answer(422, { error: { message: error.message } })
  }
})
server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))
