// A program that an agent runs for each call. The diary is a file of lines: a call, a tab, an entry.
// Exit code 0 means done. 2 with an error in JSON means that nothing was done, and anything else that nobody knows.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'

const file = process.env.DIARY
const { type, data } = JSON.parse(readFileSync(0, 'utf8'))
const entries = (existsSync(file) ? readFileSync(file, 'utf8') : '').split('\n').filter(Boolean).map((line) => line.split('\t'))
const happened = entries.some(([call]) => call === data.call)

if (type === 'tool.reconcile') {
  console.log(JSON.stringify({ happened, output: 'It stands in the diary.' }))
} else if (data.tool === 'find_entries') {
  const word = data.input.word.toLowerCase()
  console.log(JSON.stringify(entries.map(([, text]) => text).filter((text) => text.toLowerCase().includes(word))))
} else {
  if (/[\t\n]/.test(data.input.text)) {
    console.log(JSON.stringify({ error: { message: 'an entry is one line without tabs', hint: 'make it two entries' } }))
    process.exit(2)
  }
  if (!happened) appendFileSync(file, `${data.call}\t${data.input.text}\n`)
  console.log('It stands in the diary.')
}
