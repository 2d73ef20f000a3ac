package tidy

import (
	"encoding/json"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// Do is what an edit does to a page. It says what changes and not what comes out, so that several
// findings can change one page, in any order and each by itself.
type Do string

const (
	DoFront   Do = "front"   // sets the front matter's values of New, a JSON object
	DoItem    Do = "item"    // adds the item New to the list below the heading Old
	DoReplace Do = "replace" // replaces the line Old by New
	DoAppend  Do = "append"  // adds New as the last paragraph
	DoWhole   Do = "whole"   // replaces all of it by New
	DoDelete  Do = "delete"  // deletes the page
)

// Edit is a change of a page.
type Edit struct {
	Path string `json:"path"`
	Base string `json:"base"` // the version that the scan saw
	Do   Do     `json:"do"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// on is what the edit makes of a page. gone: nothing.
func (e Edit) on(body string) (now string, gone bool, err error) {
	switch e.Do {
	case DoFront:
		var values map[string]json.RawMessage
		if err := json.Unmarshal([]byte(e.New), &values); err != nil {
			return "", false, parley.Errorf(parley.CodeInternal, "an edit cannot be read: %w", err)
		}
		now, err = lake.SetFront(body, values)
		return now, false, err
	case DoItem:
		return lake.AddItem(body, e.Old, strings.TrimPrefix(e.New, "- ")), false, nil
	case DoReplace:
		lines := strings.SplitAfter(body, "\n")
		for i, l := range lines {
			if text := strings.TrimRight(l, "\r\n"); text == e.Old {
				lines[i] = e.New + l[len(text):]
				return strings.Join(lines, ""), false, nil
			}
		}
		return "", false, parley.Errorf(parley.CodeConflict, "%s does not have the line any more that is to be changed", e.Path)
	case DoAppend:
		return strings.TrimRight(body, "\n") + "\n\n" + e.New + "\n", false, nil
	case DoWhole:
		if lake.VersionOf([]byte(body)) != e.Base {
			return "", false, parley.Errorf(parley.CodeConflict, "%s has changed", e.Path)
		}
		return e.New, false, nil
	case DoDelete:
		if lake.VersionOf([]byte(body)) != e.Base {
			return "", false, parley.Errorf(parley.CodeConflict, "%s has changed, and would be deleted", e.Path)
		}
		return "", true, nil
	}
	return "", false, parley.Errorf(parley.CodeUpgradeRequired, "an edit does %q, which is not known here", e.Do)
}
