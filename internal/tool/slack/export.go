package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/records"
)

// export reads the messages of a real workspace: users.json, channels.json, and one folder per
// channel with one file per day.
func export(ctx context.Context, e *records.Export) (msgs []records.Entry, err error) {
	x := exported{users: map[string]string{}, channels: map[string]string{}}
	// All names first: messages mention people and channels by id.
	lists := func(p string) bool {
		switch path.Base(p) {
		case "users.json", "channels.json", "groups.json":
			return true
		}
		return false
	}
	if err := e.Each(ctx, lists, func(p string, _ fs.FileInfo, body []byte) error { return x.names(e, p, body) }); err != nil {
		return nil, err
	}
	days := func(p string) bool { return day.MatchString(path.Base(p)) }
	err = e.Each(ctx, days, func(p string, _ fs.FileInfo, body []byte) error {
		day, err := x.day(e, p, body)
		msgs = append(msgs, day...)
		return err
	})
	return msgs, err
}

var day = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}\.json$`)

type exported struct {
	users    map[string]string // id → name
	channels map[string]string // id → name
}

// names reads a list of users or channels.
func (x exported) names(e *records.Export, p string, body []byte) error {
	var list []struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		RealName string `json:"real_name"`
		Profile  struct {
			RealName    string `json:"real_name"`
			DisplayName string `json:"display_name"`
		} `json:"profile"`
	}
	if err := decode(e, p, body, &list); err != nil {
		return err
	}
	for _, n := range list {
		if path.Base(p) == "users.json" {
			x.users[n.ID] = cmp.Or(n.Profile.DisplayName, n.Profile.RealName, n.RealName, n.Name)
		} else {
			x.channels[n.ID] = n.Name
		}
	}
	return nil
}

// day reads the messages of one channel on one day. It leaves out joins, topics and the like,
// which say nothing.
func (x exported) day(e *records.Export, p string, body []byte) ([]records.Entry, error) {
	var list []struct {
		Type     string `json:"type"`
		Subtype  string `json:"subtype"`
		User     string `json:"user"`
		Username string `json:"username"`
		Text     string `json:"text"`
		TS       string `json:"ts"`
		Profile  struct {
			RealName    string `json:"real_name"`
			DisplayName string `json:"display_name"`
		} `json:"user_profile"`
	}
	if err := decode(e, p, body, &list); err != nil {
		return nil, err
	}
	channel := "#" + path.Base(path.Dir(p))
	var out []records.Entry
	for _, m := range list {
		switch m.Subtype {
		case "", "bot_message", "file_share", "me_message", "thread_broadcast":
		default:
			continue
		}
		if m.Type != "message" || strings.TrimSpace(m.Text) == "" {
			continue
		}
		d := message{
			channel: channel,
			user:    cmp.Or(x.users[m.User], m.Profile.DisplayName, m.Profile.RealName, m.Username, m.User, "somebody"),
			date:    strings.TrimSuffix(path.Base(p), ".json"),
			text:    x.plain(m.Text),
		}
		if sec, err := strconv.ParseFloat(m.TS, 64); err == nil && sec > 0 {
			d.at = time.UnixMicro(int64(sec * 1e6)).UTC()
		} else {
			d.at = records.Time(d.date)
		}
		out = append(out, d.entry())
	}
	return out, nil
}

// markup matches a mention, a channel or a link in Slack's markup.
var markup = regexp.MustCompile(`<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>`)

// plain converts Slack's markup to the text that people saw.
func (x exported) plain(text string) string {
	text = markup.ReplaceAllStringFunc(text, func(s string) string {
		m := markup.FindStringSubmatch(s)
		switch m[1] {
		case "@":
			return "@" + cmp.Or(x.users[m[2]], m[3], m[2])
		case "#":
			return "#" + cmp.Or(x.channels[m[2]], m[3], m[2])
		case "!":
			return cmp.Or(m[3], "@"+m[2])
		}
		if m[3] != "" && m[3] != m[2] {
			return m[3] + " (" + m[2] + ")"
		}
		return m[2]
	})
	return html.UnescapeString(text)
}

// decode parses JSON. Its error names the line.
func decode(e *records.Export, p string, body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var offset int64
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = se.Offset
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = te.Offset
	}
	line := 1 + strings.Count(string(body[:min(int(offset), len(body))]), "\n")
	return e.Bad(p+":"+strconv.Itoa(line), "is not what Slack exports: %s", err)
}
