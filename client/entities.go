package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-server/parley"
)

// Lake returns the lake that a workspace of an app is. An empty app is the only one with lakes; an empty
// workspace is the one that new sessions of the app get.
func (c *Client) Lake(app string, w parley.Workspace) Lake { return Lake{c, app, w} }

// Lake is a lake: Markdown files with links, in git. Lists are in a fixed order, and their pages name the next one.
// A change is a commit; the key of a change makes it once, however often it is sent.
type Lake struct {
	c   *Client
	app string
	w   parley.Workspace
}

// EntityQuery is what a list of entities has. Empty fields choose all.
type EntityQuery struct {
	Kind, Owner, Status, Tag, Folder, Title string

	After string // what Next says on the page before
	Limit int    // at most 500; 0 means 50
}

func (q EntityQuery) values(l Lake) url.Values {
	v := l.query("")
	for _, f := range [][2]string{{"kind", q.Kind}, {"owner", q.Owner}, {"status", q.Status}, {"tag", q.Tag}, {"folder", q.Folder}, {"title", q.Title}, {"after", q.After}} {
		set(v, f[0], f[1])
	}
	number(v, "limit", int64(q.Limit))
	return v
}

const entitiesPath = "/v1/entities"

func (l Lake) query(path string) url.Values {
	q := url.Values{}
	set(q, "app", l.app)
	set(q, "workspace", string(l.w))
	set(q, "path", path)
	return q
}

func lakeGet[T any](ctx context.Context, l Lake, op string, q url.Values) (T, error) {
	return get[T](ctx, l.c, call{method: http.MethodGet, path: entitiesPath + op, query: q})
}

// List lists entities, in the order of their paths.
func (l Lake) List(ctx context.Context, q EntityQuery) (parley.EntityList, error) {
	return lakeGet[parley.EntityList](ctx, l, "", q.values(l))
}

// Search looks for words, the best hits first.
func (l Lake) Search(ctx context.Context, text string, q EntityQuery) (parley.EntityHits, error) {
	v := q.values(l)
	v.Set("q", text)
	return lakeGet[parley.EntityHits](ctx, l, "/search", v)
}

// Read reads an entity with its links and faults.
func (l Lake) Read(ctx context.Context, path string) (parley.Entity, error) {
	return lakeGet[parley.Entity](ctx, l, "/entity", l.query(path))
}

// Create makes an entity at w.Path.
func (l Lake) Create(ctx context.Context, w parley.WriteEntity, key string) (parley.EntityChanged, error) {
	return get[parley.EntityChanged](ctx, l.c, call{method: http.MethodPost, path: entitiesPath, query: l.query(""), body: w}.set("Idempotency-Key", key))
}

// Update changes the text of an entity. What others have changed since w.Version is merged; CodeConflict: it does not fit.
func (l Lake) Update(ctx context.Context, path string, w parley.WriteEntity, key string) (parley.EntityChanged, error) {
	return get[parley.EntityChanged](ctx, l.c, call{method: http.MethodPut, path: entitiesPath + "/entity", query: l.query(path), body: w}.set("Idempotency-Key", key))
}

// Move gives an entity another path. The links to it lead there afterwards.
func (l Lake) Move(ctx context.Context, path string, m parley.MoveEntity, key string) (parley.EntityChanged, error) {
	return get[parley.EntityChanged](ctx, l.c, call{method: http.MethodPost, path: entitiesPath + "/entity/move", query: l.query(path), body: m}.set("Idempotency-Key", key))
}

// Delete deletes an entity, if it still has that version; with an empty one, whatever it has.
func (l Lake) Delete(ctx context.Context, path, version, reason, key string) (parley.EntityChanged, error) {
	q := l.query(path)
	set(q, "version", version)
	set(q, "reason", reason)
	return get[parley.EntityChanged](ctx, l.c, call{method: http.MethodDelete, path: entitiesPath + "/entity", query: q}.set("Idempotency-Key", key))
}

// Backlinks lists the links to an entity.
func (l Lake) Backlinks(ctx context.Context, path, after string, limit int) (parley.EntityBacklinks, error) {
	return lakeGet[parley.EntityBacklinks](ctx, l, "/backlinks", l.page(path, after, limit))
}

// History lists the commits that changed an entity, the newest first.
func (l Lake) History(ctx context.Context, path, after string, limit int) (parley.EntityHistory, error) {
	return lakeGet[parley.EntityHistory](ctx, l, "/history", l.page(path, after, limit))
}

// Diff compares an entity between two commits, as a unified diff. An empty from is the commit before to, an empty to the file as
// it is now.
func (l Lake) Diff(ctx context.Context, path, from, to string) (string, error) {
	q := l.query(path)
	set(q, "from", from)
	set(q, "to", to)
	d, err := lakeGet[struct {
		Diff string `json:"diff"`
	}](ctx, l, "/diff", q)
	return d.Diff, err
}

// Validate lists what is wrong with entities, or with those in folders; no paths: with all.
func (l Lake) Validate(ctx context.Context, paths []string, after string, limit int) (parley.EntityFaults, error) {
	q := l.page("", after, limit)
	set(q, "paths", strings.Join(paths, ","))
	return lakeGet[parley.EntityFaults](ctx, l, "/validate", q)
}

// Tree lists a folder; "" is the lake itself.
func (l Lake) Tree(ctx context.Context, folder, after string, limit int) (parley.EntityTree, error) {
	return lakeGet[parley.EntityTree](ctx, l, "/tree", l.page(folder, after, limit))
}

// Graph returns the entities that a query chooses, and the links among them. It has no pages.
func (l Lake) Graph(ctx context.Context, q EntityQuery) (parley.EntityGraph, error) {
	q.After, q.Limit = "", 0
	return lakeGet[parley.EntityGraph](ctx, l, "/graph", q.values(l))
}

// Changes reads the commits behind a cursor, the oldest first. "" begins with the first, "now" behind the last.
func (l Lake) Changes(ctx context.Context, cursor string, limit int) (parley.LakeFeed, error) {
	q := l.query("")
	set(q, "cursor", cursor)
	number(q, "limit", int64(limit))
	return lakeGet[parley.LakeFeed](ctx, l, "/changes", q)
}

func (l Lake) page(path, after string, limit int) url.Values {
	q := l.query(path)
	set(q, "after", after)
	number(q, "limit", int64(limit))
	return q
}
