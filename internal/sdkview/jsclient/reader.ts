// A program written for the Agent SDK: it reads SDKMessage. The test writes the messages that the
// view sends into messages.gen.ts, so this compiles only if each of them is one.
import type { SDKMessage, SDKResultMessage, SDKSystemMessage } from '@anthropic-ai/claude-agent-sdk';
import { messages } from './messages.gen.ts';

export function read(list: readonly SDKMessage[]): { session: string; tools: string[]; text: string; asked: unknown[]; told: string[]; end: SDKResultMessage[] } {
  const found = { session: '', tools: [] as string[], text: '', asked: [] as unknown[], told: [] as string[], end: [] as SDKResultMessage[] };
  for (const m of list) {
    switch (m.type) {
      case 'system':
        if (m.subtype === 'init') {
          const init: SDKSystemMessage = m;
          found.session = init.session_id;
          found.tools = init.tools;
        }
        break;
      case 'assistant':
        for (const block of m.message.content) {
          if (block.type === 'text') found.text += block.text;
          if (block.type === 'tool_use' && block.name === 'AskUserQuestion') found.asked.push(block.input);
        }
        break;
      case 'user':
        if (typeof m.message.content === 'string') break;
        for (const block of m.message.content) {
          if (block.type === 'tool_result' && typeof block.content === 'string') found.told.push(block.content);
        }
        break;
      case 'stream_event':
        if (m.event.type === 'content_block_delta' && m.event.delta.type === 'text_delta') found.text += '';
        break;
      case 'result':
        found.end.push(m);
        break;
    }
  }
  return found;
}

read(messages);
