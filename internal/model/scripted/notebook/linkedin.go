package notebook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	postURN    = pattern.New(`urn:li:(?:share|ugcPost|activity):\d+`)
	commentURN = pattern.New(`urn:li:comment:\([^()\s]+\)`)
)

// publish makes a post, a comment or a reply, and says what became of it.
func (u *turn) publish(c Call, text string) (string, bool) {
	r, ok := u.one(c)
	switch {
	case !ok:
		return "", false
	case r.Failed || strings.HasPrefix(r.Output, "Error"):
		return "It was not published: " + plain(r.Output), true
	}
	first, more, _ := strings.Cut(strings.TrimSpace(r.Output), "\n")
	say := first + "\n\n" + quote(text)
	if more != "" {
		say += "\n\n" + more
	}
	return say, true
}

// post publishes what somebody says.
func (u *turn) post(m []string) (string, bool) {
	if !pattern.New(`(?i)linked ?in|^(?:post|publish|share)`).MatchString(m[0]) {
		return "", true
	}
	text := strings.TrimSpace(strings.Trim(strings.TrimSpace(m[1]), `"`))
	if text == "" {
		return "", true
	}
	u.note = "I post it."
	return u.publish(Call{Tool: "linkedin_post", Input: map[string]any{"text": text}}, text)
}

// postLast publishes what was answered before.
func (u *turn) postLast(m []string) (string, bool) {
	if pattern.New(`(?i)^put`).MatchString(m[0]) && !pattern.New(`(?i)linked`).MatchString(m[0]) {
		return "", true
	}
	text := u.last()
	if quoted := quotedIn(text); quoted != "" {
		text = quoted
	}
	text = keepable(text)
	text = strings.TrimSpace(marks.ReplaceAllString(strings.ReplaceAll(text, "`", ""), "$1"))
	if text == "" {
		return "There is no text yet that I could post. Say: post to LinkedIn: …", true
	}
	u.note = "I post it."
	return u.publish(Call{Tool: "linkedin_post", Input: map[string]any{"text": text}}, text)
}

// quotedIn is what an answer quotes.
func quotedIn(answer string) string {
	var lines []string
	for l := range strings.SplitSeq(answer, "\n") {
		if rest, is := strings.CutPrefix(l, "> "); is {
			lines = append(lines, rest)
		}
	}
	return strings.Join(lines, "\n")
}

// postNote publishes a note, or an item of one.
func (u *turn) postNote(m []string) (string, bool) {
	u.note = "I read the note first."
	file, ask, ok := u.oneNote(m[2], noteFile)
	if !ok || ask != "" {
		return ask, ok
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	t := list[0]
	var text string
	if m[1] != "" {
		all := t.entries()
		at, known := count[strings.ToLower(m[1])]
		if !known {
			at = len(all) - 1
		}
		if at < 0 || at >= len(all) {
			return fmt.Sprintf("`%s` has no such item.", file), true
		}
		text = unmarked(all[at].text)
	} else {
		var out []string
		for _, p := range t.outline().parts {
			for _, l := range p.lines {
				out = append(out, unmarked(l))
			}
		}
		text = strings.Join(out, "\n")
	}
	if text == "" {
		return fmt.Sprintf("`%s` has no text.", file), true
	}
	return u.publish(Call{Tool: "linkedin_post", Input: map[string]any{"text": text}}, text)
}

// thePost is the post that somebody means: one whose URN is said, the last one of the conversation,
// or the last one of the activity log.
func (u *turn) thePost(said string) (urn string, ok bool) {
	if urn := postURN.FindString(said); urn != "" {
		return urn, true
	}
	texts := []string{u.done}
	for _, x := range slices.Backward(u.Earlier) {
		texts = append(texts, x.Answer)
	}
	for _, t := range texts {
		if all := pattern.New(`urn:li:(?:share|ugcPost):\d+`).FindAllString(t, -1); len(all) > 0 {
			return all[len(all)-1], true
		}
	}
	rows, ok := u.activity()
	if !ok || len(rows) == 0 {
		return "", ok
	}
	return rows[len(rows)-1].urn, true
}

// activity are the posts of the log.
type posted struct{ day, urn, text string }

func (u *turn) activity() (list []posted, ok bool) {
	r, ok := u.one(Call{Tool: "Grep", Input: map[string]any{"pattern": `,post,urn:`, "path": "linkedin/posts.csv", "output_mode": "content"}})
	if !ok {
		return nil, false
	}
	for l := range strings.SplitSeq(r.Output, "\n") {
		m := pattern.New(`(\d{4}-\d\d-\d\d)T[^,]*,post,(urn:[^,]*),[^,]*,(.*)$`).FindStringSubmatch(l)
		if m == nil || r.Failed {
			continue
		}
		text := m[3]
		if inner, is := strings.CutPrefix(text, `"`); is {
			text, _, _ = strings.Cut(strings.ReplaceAll(inner, `""`, "\x00"), `"`)
			text = strings.ReplaceAll(text, "\x00", `"`)
		} else {
			text, _, _ = strings.Cut(text, ",")
		}
		list = append(list, posted{m[1], m[2], text})
	}
	return list, true
}

func (u *turn) posted([]string) (string, bool) {
	u.note = "I look into the log."
	rows, ok := u.activity()
	if !ok {
		return "", false
	}
	if len(rows) == 0 {
		return "Nothing is in your log of LinkedIn, `linkedin/posts.csv`.", true
	}
	var out []string
	for _, p := range slices.Backward(rows) {
		out = append(out, fmt.Sprintf("%s: %s (%s)", p.day, clipped(p.text, 200), p.urn))
	}
	return fmt.Sprintf("You have posted %s:\n\n%s", map[bool]string{true: "once", false: fmt.Sprintf("%d times", len(rows))}[len(rows) == 1], bullets(out[:min(len(out), 10)])), true
}

// remark is a comment as the tool shows it.
type remark struct {
	URN     string   `json:"comment_urn"`
	Author  string   `json:"author"`
	Mine    bool     `json:"mine"`
	Text    string   `json:"text"`
	Replies []remark `json:"replies"`
}

// remarks reads the comments on a post.
func (u *turn) remarks(post string) (list []remark, wrong string, ok bool) {
	r, ok := u.one(Call{Tool: "linkedin_read_comments", Input: map[string]any{"post_urn": post}})
	switch {
	case !ok:
		return nil, "", false
	case r.Failed || strings.HasPrefix(r.Output, "Error"):
		return nil, "I could not read the comments: " + plain(r.Output), true
	}
	_, raw, _ := strings.Cut(r.Output, "\n")
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil, "I could not read the comments: the result is cut off.", true
	}
	return list, "", true
}

func (r remark) who() string {
	if r.Mine {
		return "you"
	}
	return r.Author[strings.LastIndexByte(r.Author, ':')+1:]
}

// comments shows the comments on a post.
func (u *turn) comments(m []string) (string, bool) {
	if !pattern.New(`(?i)comment|linked|post|react|repl|people|others|anybody|anyone|somebody`).MatchString(m[0]) && (len(m) < 2 || !itself.MatchString(m[1])) {
		return "", true
	}
	about := ""
	if len(m) > 1 {
		about = m[1]
	}
	if about != "" && !pattern.New(`(?i)post|linked|urn:|^(?:it|that|this)$`).MatchString(about) {
		return "", true
	}
	u.note = "I read the comments."
	post, ok := u.thePost(about)
	if !ok {
		return "", false
	}
	if post == "" {
		return "I know of no post of yours. Name it by its URN, such as urn:li:share:123.", true
	}
	list, wrong, ok := u.remarks(post)
	if !ok || wrong != "" {
		return wrong, ok
	}
	if len(list) == 0 {
		return fmt.Sprintf("There are no comments on your post %s yet.", post), true
	}
	var out []string
	for i, r := range list {
		out = append(out, fmt.Sprintf("%d. **%s**: %s", i+1, r.who(), r.Text))
		for _, a := range r.Replies {
			out = append(out, fmt.Sprintf("   - **%s** replied: %s", a.who(), a.Text))
		}
	}
	return fmt.Sprintf("%s on your post %s:\n\n%s", capital(counted(len(list), "comment")), post, strings.Join(out, "\n")), true
}

// reply answers a comment: the first one, that of somebody, or the one with some words.
func (u *turn) reply(m []string) (string, bool) {
	said, text := m[1], strings.TrimSpace(strings.Trim(strings.TrimSpace(m[2]), `"`))
	post, ok := u.thePost(said)
	if !ok {
		return "", false
	}
	if post == "" {
		return "I know of no post of yours. Name it by its URN, such as urn:li:share:123.", true
	}
	u.note = "I read the comments first."
	list, wrong, ok := u.remarks(post)
	if !ok || wrong != "" {
		return wrong, ok
	}
	list = slices.DeleteFunc(list, func(r remark) bool { return r.Mine })
	at := -1
	if urn := commentURN.FindString(said); urn != "" {
		at = slices.IndexFunc(list, func(r remark) bool { return r.URN == urn })
	} else if m := pattern.New(`(?i)\b(first|second|third|fourth|fifth|last)\b`).FindStringSubmatch(said); m != nil {
		n, known := count[strings.ToLower(m[1])]
		if at = n; !known {
			at = len(list) - 1
		}
	} else {
		words := topics(strings.NewReplacer("comment", "", "'s", "").Replace(said))
		at = slices.IndexFunc(list, func(r remark) bool {
			return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !mentions(strings.ReplaceAll(r.who(), "-", " ")+" "+r.Text, w) })
		})
		if at < 0 && len(list) == 1 && len(words) == 0 {
			at = 0
		}
	}
	if at < 0 || at >= len(list) {
		return fmt.Sprintf("I found no such comment on %s. Say: reply to the first one: …", post), true
	}
	c := list[at]
	say, ok := u.publish(Call{Tool: "linkedin_reply_comment", Input: map[string]any{"post_urn": post, "comment_urn": c.URN, "text": text}}, text)
	if ok && strings.HasPrefix(say, "Reply posted") {
		say += fmt.Sprintf("\n\nto **%s**: %s", c.who(), c.Text)
	}
	return say, ok
}

// comment comments on a post.
func (u *turn) comment(m []string) (string, bool) {
	text := strings.TrimSpace(strings.Trim(strings.TrimSpace(m[2]), `"`))
	if m[1] != "" && !pattern.New(`(?i)post|linked|urn:|^(?:it|that|this)$`).MatchString(m[1]) {
		return "", true
	}
	post, ok := u.thePost(m[1])
	if !ok {
		return "", false
	}
	if post == "" {
		return "I know of no post of yours. Name it by its URN, such as urn:li:share:123.", true
	}
	u.note = "I comment on it."
	return u.publish(Call{Tool: "linkedin_post_comment", Input: map[string]any{"post_urn": post, "text": text}}, text)
}
