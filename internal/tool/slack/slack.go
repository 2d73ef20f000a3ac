// Package slack is a toolset over Slack messages kept as files: the records of mock_slack.json
// and the export of a real workspace.
//
// The data folder may hold either or both:
//
//	mock_slack.json      {"messages":[{"channel","user","date","text"}]}
//	slack_export.zip     what Slack's "Export workspace data" gives
//	slack_export/        the same, unpacked
//
// Everything is read at each call, so an edit shows at once. If a file is missing or malformed,
// the call fails with file, line and column; nothing else is affected. The tool only reads.
package slack

import (
	_ "embed"
	"time"

	"github.com/parley-server/parley/internal/records"
)

// Tool is the name of the one tool.
const Tool = "read_slack_mock"

//go:embed read_slack_mock.md
var description string

// New makes a toolset over a data folder.
func New(data records.Folder) *records.Tool {
	return &records.Tool{
		Name: Tool, Description: description, Kind: "Slack message",
		Data: data, File: "mock_slack.json", Key: "messages", Fields: []string{"channel", "user", "date", "text"},
		Entry: func(r map[string]string) records.Entry {
			return message{r["channel"], r["user"], r["date"], r["text"], records.Time(r["date"])}.entry()
		},
		ExportDir: "slack_export", ExportZip: "slack_export.zip", Export: export,
	}
}

type message struct {
	channel, user, date, text string
	at                        time.Time
}

func (m message) entry() records.Entry {
	return records.Entry{Head: []string{"Slack", m.channel, m.user, m.date}, Text: m.text, At: m.at}
}
