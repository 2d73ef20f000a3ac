package linkedin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// skew is how far our clock and LinkedIn's may differ.
	skew = 2 * time.Minute
	// listed is how long after a call LinkedIn may take to list what it made.
	listed = 20 * time.Second

	pageSize = 100
	maxPages = 5
)

// Reconciles implements [seam.Choosy].
func (*Toolset) Reconciles(tool string) bool {
	return strings.TrimPrefix(tool, Prefix) != ReadComments
}

// Reconcile implements [seam.Reconciler]. The log names the calls whose answer has come. Otherwise
// LinkedIn is asked, which only logins with r_member_social may do: the author's post or comment
// with that text, made since the call started, and not by another call that the log names.
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	w, err := t.wish(r.Name, r.Input, r.Space)
	if err != nil {
		return res, false, err
	}
	for {
		left := listed - t.o.Now().Sub(r.Started)
		res, known, err = t.look(ctx, r, w)
		if err != nil || !known || res.Outcome == parley.OutcomeOK || left <= 0 {
			return res, known, err
		}
		if err := t.o.Pause(ctx, left+time.Second); err != nil {
			return res, false, err
		}
	}
}

// look looks once for what became of a call.
func (t *Toolset) look(ctx context.Context, r seam.Run, w wish) (res parley.ToolResult, known bool, err error) {
	leave, err := t.enter(ctx, "write", r.Space) // so the log has what others have made
	if err != nil {
		return res, false, err
	}
	defer leave()
	l, err := openLog(r)
	if err != nil {
		return res, false, err
	}
	l.tree.Tidy(LogPath, string(r.Call))
	if v, ok := l.of(r.Call); ok {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: said(w.tool, made{post: v.post, comment: v.comment})}, true, nil
	}
	var m made
	var all, may bool
	err = t.with(ctx, r, func(a account) (err error) {
		if may = a.reads(); !may {
			return nil
		}
		m, all, err = t.find(ctx, a, w, r.Started.Add(-skew), l)
		return err
	})
	if ref, ok := errors.AsType[*refusal](err); ok && (ref.status == http.StatusForbidden || ref.status == http.StatusNotFound) {
		return res, false, nil // it cannot be read, and that does not change
	}
	switch {
	case err != nil:
		return res, false, err
	case m.post != "":
		return t.done(ctx, r, w, l, m), true, nil
	case !may || !all:
		return res, false, nil
	}
	const not = "it was not posted: LinkedIn does not have it. Nothing was done; make the call again if it is still wanted"
	return failed(parley.Errorf(parley.CodeUnavailable, not)), true, nil
}

// comment is a comment or reply as LinkedIn describes it.
type comment struct {
	ID      string `json:"id"`
	URN     string `json:"commentUrn"`
	Actor   string `json:"actor"`
	Object  string `json:"object"`
	Parent  string `json:"parentComment"`
	Message struct {
		Text string `json:"text"`
	} `json:"message"`
	Created struct {
		Time int64 `json:"time"`
	} `json:"created"`
	Summary *struct {
		First int `json:"totalFirstLevelComments"`
		All   int `json:"aggregatedTotalComments"`
	} `json:"commentsSummary"`
}

// find looks for what a call has made since a time. all says that everything was looked at.
func (t *Toolset) find(ctx context.Context, a account, w wish, since time.Time, l *activity) (m made, all bool, err error) {
	if w.tool != Post {
		target := w.Post
		if w.tool == ReplyComment {
			target = w.Comment
		}
		list, all, err := t.comments(ctx, a, target, maxPages)
		for _, c := range list {
			if c.Actor == a.urn() && c.Message.Text == w.Text && !time.UnixMilli(c.Created.Time).Before(since) && !l.has(c.URN) {
				return made{post: w.Post, comment: c.URN}, true, err
			}
		}
		return made{}, all, err
	}
	for start := 0; start < maxPages*pageSize; start += pageSize {
		got, err := t.call(ctx, a.Access, request{
			method: http.MethodGet, restli: "finder", path: "posts",
			query: fmt.Sprintf("q=author&author=%s&start=%d&count=%d&sortBy=LAST_MODIFIED", encoded(a.urn()), start, pageSize),
		})
		if err != nil {
			return made{}, false, err
		}
		var page struct {
			Elements []struct {
				ID         string `json:"id"`
				Author     string `json:"author"`
				Commentary string `json:"commentary"`
				Created    int64  `json:"createdAt"`
				Modified   int64  `json:"lastModifiedAt"`
			} `json:"elements"`
		}
		if err := json.Unmarshal(got.body, &page); err != nil {
			return made{}, false, &lost{"LinkedIn's list of posts cannot be read"}
		}
		older := false
		for _, p := range page.Elements {
			if p.Author == a.urn() && p.Commentary == escaped(w.Text) && !time.UnixMilli(p.Created).Before(since) && p.ID != "" && !l.has(p.ID) {
				return made{post: p.ID}, true, nil
			}
			older = older || p.Modified > 0 && time.UnixMilli(p.Modified).Before(since)
		}
		if older || len(page.Elements) < pageSize {
			return made{}, true, nil
		}
	}
	return made{}, false, nil
}

// comments lists the comments on a post, or the replies to a comment.
func (t *Toolset) comments(ctx context.Context, a account, target string, pages int) (list []comment, all bool, err error) {
	for start := 0; start < pages*pageSize; start += pageSize {
		got, err := t.call(ctx, a.Access, request{
			method: http.MethodGet, restli: "get_all", path: "socialActions/" + encoded(target) + "/comments", query: fmt.Sprintf("start=%d&count=%d", start, pageSize),
		})
		if err != nil {
			return list, false, err
		}
		var page struct {
			Elements []comment `json:"elements"`
		}
		if err := json.Unmarshal(got.body, &page); err != nil {
			return list, false, &lost{"LinkedIn's list of comments cannot be read"}
		}
		list = append(list, page.Elements...)
		if len(page.Elements) < pageSize {
			return list, true, nil
		}
	}
	return list, false, nil
}
