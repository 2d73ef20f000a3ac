package librarian

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// kinds are the words for kinds of entities.
var kinds = map[string]string{
	"decision": "decision", "customer": "customer", "client": "customer", "harbour": "customer", "project": "project", "meeting": "meeting", "role": "role", "person": "person", "people": "person", "colleague": "person",
	"employee": "person", "term": "term", "glossary": "term", "incident": "incident", "product": "product", "doc": "doc", "guide": "doc", "rule": "doc", "note": "note",
}

var (
	listAsked = pattern.New(`(?i)^(?:list|show|give me|name|count|what are|which are|which|what|how many|are there|do we have|all)\b(.*)$`)
	statusIn  = pattern.New(`(?i)\b(active|done|finished|paused|closed|open|proposed|accepted|superseded|lost|pilot|draft|idea)\b`)
	ownedBy   = pattern.New(`(?i)\b(?:owned by|of|by|from|does|has)\s+([A-Z\p{Lu}][\p{L}-]+(?:\s+[A-Z\p{Lu}][\p{L}-]+)?)`)
	kindWord  = pattern.New(`(?i)\b(decisions?|customers?|clients?|harbours?|projects?|meetings?|roles?|people|persons?|colleagues|employees|terms|glossary|incidents?|products?|docs|guides|rules|notes)\b`)
	mayAsk    = pattern.New(`(?i)^(?:(?:of |the |our |all |are |there |we |do |have |were |is |in |lake|any |open |active |done |finished |paused |closed |proposed |accepted |superseded |lost |pilot |draft |recent |new |current |\?|made |owned by \S+(?: \S+)?|by \S+(?: \S+)?|of \S+(?: \S+)?|does \S+ own|own|exist|decisions?|customers?|clients?|harbours?|projects?|meetings?|roles?|people|persons?|colleagues|employees|terms|glossary|incidents?|products?|docs|guides|rules|notes)\s*)+$`)
)

// listing lists entities of a kind, by status and owner.
func (u *turn) listing(q string) (string, bool, bool) {
	m := listAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	rest := strings.TrimSpace(m[1])
	k := kindWord.FindString(rest)
	if k == "" || !mayAsk.MatchString(rest+" ") {
		return "", false, true
	}
	kind := kinds[strings.ToLower(k)]
	if kind == "" {
		kind = kinds[strings.TrimSuffix(strings.ToLower(k), "s")]
	}
	r, ok := u.one("lake_list", map[string]any{"kind": kind, "limit": 100})
	if !ok {
		return "", true, false
	}
	status, owner := strings.ToLower(statusIn.FindString(rest)), ""
	if o := ownedBy.FindStringSubmatch(rest); o != nil {
		owner = o[1]
	}
	var list []entity
	for _, e := range entities(r.Output) {
		is := e.status
		if status == "finished" {
			status = "done"
		}
		if status == "open" && kind != "incident" {
			if is == "done" || is == "closed" || is == "lost" || is == "superseded" || is == "accepted" && kind == "decision" {
				continue
			}
		} else if status != "" && is != status {
			continue
		}
		if owner != "" && !strings.Contains(folded(e.owner), folded(owner)) {
			continue
		}
		list = append(list, e)
	}
	what := kind
	if what == "person" {
		what = "people"
	} else {
		what += "s"
	}
	if status != "" {
		what = status + " " + what
	}
	if owner != "" {
		what += " of " + owner
	}
	if len(list) == 0 {
		return "There are no " + what + " in the lake.", true, true
	}
	var out []string
	for _, e := range list[:min(len(list), 60)] {
		line := fmt.Sprintf("- %s (`%s`)", e.title, e.path)
		if e.status != "" && status == "" && e.status != "active" {
			line += ", " + e.status
		}
		if e.owner != "" && owner == "" && kind != "person" {
			line += ", owner " + e.owner
		}
		out = append(out, line)
	}
	return fmt.Sprintf("The lake has %d %s:\n\n%s", len(list), what, strings.Join(out, "\n")), true, true
}

var showAsked = pattern.New(`(?i)^(?:show|open|read|display|print|summari[sz]e|describe|what does (.+) say)\b\s*(?:me\s+)?(.*)$`)

// show shows a page.
func (u *turn) show(q string) (string, bool, bool) {
	m := showAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	if say, mine := u.showFile(strings.TrimSpace(m[1]+m[2]), q); mine {
		return say, true, true
	}
	e, why, ok := u.which(strings.TrimSpace(m[1] + m[2]))
	if !ok || why != "" {
		return why, true, ok
	}
	most := 40
	if strings.HasPrefix(strings.ToLower(q), "summar") {
		most = 3
	}
	return page(e, most), true, true
}

var propertyAsked = pattern.New(`(?i)^who (?:owns|is the owner of|is responsible for|answers for)\s+(.+)$|^(?:what is )?the (?:owner|status) of\s+(.+)$|^what(?:'s| is) the (?:status|owner) of\s+(.+)$|^and (?:the |its )?(?:owner|status)$|^who owns (it|that|this)$`)

// property says what the front matter of a page says.
func (u *turn) property(q string) (string, bool, bool) {
	m := propertyAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	e, why, ok := u.which(m[1] + m[2] + m[3] + m[4])
	if !ok {
		return "", true, false
	}
	if why != "" { // not the name of a page, but perhaps something that pages speak of
		say, ok := u.question(q)
		return say, true, ok
	}
	if strings.Contains(strings.ToLower(q), "status") {
		if e.status == "" {
			return fmt.Sprintf("%s (`%s`) has no status.", e.title, e.path), true, true
		}
		return fmt.Sprintf("The status of %s is %s (`%s`, updated %s).", e.title, e.status, e.path, e.updated), true, true
	}
	if e.owner == "" {
		return fmt.Sprintf("%s (`%s`) has no owner.", e.title, e.path), true, true
	}
	return fmt.Sprintf("%s owns %s (`%s`).", e.owner, e.title, e.path), true, true
}
