// Package claudecli stands in for the Claude Code CLI in tests that cannot have the real one.
//
// It plays transcripts of the real program (2.1.329), which are in testdata: what the program
// wrote, line by line in the order of the capture, and it waits for its host wherever the
// capture's host wrote something. [Install] makes an executable of it, and [Run] plays within a
// process. A transcript is named as its file: "03-permission-allow".
//
// What it does:
//
//   - It requires of every line of the host the shape that the protocol gives it: kinds, fields,
//     types, and ids that were asked for. What is wrong with a line is said on standard error and
//     in the file "host.log" beside the executable, and ends the program. The real one is less
//     strict.
//   - It replaces ids consistently: the session's by the one of --session-id or --resume, those
//     of messages by the host's, all others by new ones. The folders of the capture become the
//     working folder and CLAUDE_CONFIG_DIR.
//   - It asks for what the host has registered. A host with other hooks than the capture's gets
//     the callbacks of its own hooks, and is not asked again for what a PreToolUse hook allowed.
//     A call that the capture's host answered otherwise has the result that follows from the
//     answer. In-process MCP servers are greeted, and partial messages and lifecycles of messages
//     are there exactly if the command line and the messages ask for them.
//   - With ANTHROPIC_BASE_URL it makes the model calls of the capture, with the history so far, and
//     demands the replies that the capture has. Errors end the turn as they do in the real one.
//     [Messages] serves these replies.
//   - With [Play.Live] it does not follow the capture after initialize: a turn does what the model
//     behind ANTHROPIC_BASE_URL says, in lines of the same shapes. Agents work in the foreground, and a
//     conversation that has become too large is summarized.
//   - With [Play.Effects] Write, Edit, Read and Bash really happen, and are noted in "effects.log".
//   - It keeps a session's messages under CLAUDE_CONFIG_DIR, so that --resume, --fork-session and
//     --resume-session-at find what was there when it was killed.
//   - [Play.At] counts steps: each line that is read or written, each effect and each model call.
//     At one of them it is killed, freezes, or waits to be interrupted. [Play.Stopped] lets that happen
//     when it is interrupted.
//
// What it does not do: decide about permissions by rules (it asks where the capture asked, or
// when live for what is not in --allowedTools and does not only read), run background
// work other than the captured, count real tokens, or read settings, skills and memory. Limits of turns and money are those of the capture.
package claudecli
