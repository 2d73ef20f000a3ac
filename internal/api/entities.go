package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/userfiles"
)

// An entity's path has slashes, so it is a query parameter.

const (
	entitiesPath = "/v1/entities"
	entityPath   = entitiesPath + "/entity"
	changesPath  = entitiesPath + "/changes"
	feedPath     = changesPath + "/stream"

	// heldEntity is what an answer with an entity may hold: its text, and its JSON.
	heldEntity = 3 * lake.MaxEntity
	heldGraph  = 8 << 20
)

// LakeParam is exported for the same reason as SessionParam.
type LakeParam struct {
	App       string           `query:"app" maxLength:"64" doc:"The app's name; the only app with a lake when not given."`
	Workspace parley.Workspace `query:"workspace" maxLength:"80" doc:"The workspace that is the lake; that of new sessions when not given."`
}

// EntityParam names an entity of a lake.
type EntityParam struct {
	LakeParam
	Path string `query:"path" required:"true" maxLength:"1024" doc:"The entity's path in the lake, with slashes. The ending .md may be left out."`
}

// EntityFilter chooses entities.
type EntityFilter struct {
	Kind   string `query:"kind" maxLength:"300" doc:"Only of this kind, such as decision."`
	Owner  string `query:"owner" maxLength:"300" doc:"Only of this owner."`
	Status string `query:"status" maxLength:"300" doc:"Only in this status."`
	Tag    string `query:"tag" maxLength:"300" doc:"Only with this tag."`
	Folder string `query:"folder" maxLength:"1024" doc:"Only in this folder, at any depth."`
	Title  string `query:"title" maxLength:"300" doc:"Only with this in the title."`
}

func (f EntityFilter) filter() lake.Filter {
	return lake.Filter{Kind: f.Kind, Owner: f.Owner, Status: f.Status, Tag: f.Tag, Folder: f.Folder, Title: f.Title}
}

// EntityPage is a page of a list.
type EntityPage struct {
	After string `query:"after" maxLength:"1100" doc:"What next says on the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" doc:"At most so many; 50 when not given."`
}

func (p EntityPage) page() lake.Page { return lake.Page{After: p.After, Limit: p.Limit} }

// EntityTag is for a client that has an answer already.
type EntityTag struct {
	NoneMatch string `header:"If-None-Match" maxLength:"2000" doc:"The ETag of the answer that you have. If it is the same, the answer is 304 without a body."`
}

type entitiesInput struct {
	LakeParam
	EntityFilter
	EntityPage
	EntityTag
}

type searchInput struct {
	LakeParam
	EntityFilter
	EntityPage
	EntityTag
	Query string `query:"q" required:"true" maxLength:"1000" doc:"Words to look for; words in quotes are a phrase. Each word may be the beginning of one."`
}

type entityInput struct {
	EntityParam
	EntityTag
}

type entityListInput struct {
	EntityParam
	EntityPage
	EntityTag
}

type createEntityInput struct {
	LakeParam
	KeyParam
	Body parley.WriteEntity
}

type updateEntityInput struct {
	EntityParam
	KeyParam
	Match string `header:"If-Match" maxLength:"2000" doc:"The ETag of the entity that you have read. If it has changed since, the answer is 412 and nothing is changed. It wins over version, with which changes are merged."`
	Body  parley.WriteEntity
}

type moveEntityInput struct {
	EntityParam
	KeyParam
	Match string `header:"If-Match" maxLength:"2000" doc:"The ETag of the entity that you have read; 412 if it has changed since."`
	Body  parley.MoveEntity
}

type deleteEntityInput struct {
	EntityParam
	KeyParam
	Match   string `header:"If-Match" maxLength:"2000" doc:"The ETag of the entity that you have read; 412 if it has changed since."`
	Version string `query:"version" maxLength:"64" doc:"The version that is deleted; 409 if the entity has another. Without it and If-Match, any is."`
	Reason  string `query:"reason" maxLength:"4000" doc:"Why, for the history."`
}

type diffInput struct {
	EntityParam
	EntityTag
	From string `query:"from" maxLength:"64" doc:"A commit; the one before to when not given."`
	To   string `query:"to" maxLength:"64" doc:"A commit; the file as it is now when not given."`
}

type revisionInput struct {
	EntityParam
	EntityTag
	Commit string `query:"commit" required:"true" minLength:"4" maxLength:"64" doc:"A commit of the history."`
}

type validateInput struct {
	LakeParam
	EntityPage
	EntityTag
	Paths []string `query:"paths" maxItems:"100" doc:"Entities or folders, separated by commas; everything when not given."`
}

type entityTreeInput struct {
	LakeParam
	EntityPage
	EntityTag
	Path string `query:"path" maxLength:"1024" doc:"The folder; the lake itself when not given."`
}

type graphInput struct {
	LakeParam
	EntityFilter
	EntityTag
}

type tagsInput struct {
	LakeParam
	EntityTag
}

// tagged is an answer with an ETag. Without a body it is a 304.
type tagged[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Cache  string `header:"Cache-Control"`
	Body   *T
}

// unlessKnown answers with v, or with a 304 if the client has it. Version is that of what v is about;
// "": the bytes of its JSON say it.
func unlessKnown[T any](v T, version, known string) (*tagged[T], error) {
	if version == "" {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(raw)
		version = hex.EncodeToString(sum[:16])
	}
	out := &tagged[T]{Status: http.StatusOK, ETag: `"` + version + `"`, Cache: "private, no-cache"}
	if names(known, version) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	out.Body = &v
	return out, nil
}

// names reports whether a list of ETags has that of a version.
func names(list, version string) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == `"`+version+`"` {
			return true
		}
	}
	return false
}

// staleError is the answer to a request whose If-Match names another version.
type staleError struct{ err *parley.Error }

func (e staleError) Error() string { return e.err.Error() }
func (e staleError) Unwrap() error { return e.err }
func (staleError) HTTPStatus() int { return http.StatusPreconditionFailed }

// orStale turns the conflict of a change with an If-Match into a 412.
func orStale(match string, err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if _, conflict := errors.AsType[*lake.Conflict](err); match == "" || !ok || !conflict {
		return err
	}
	named := *e
	return staleError{named.WithField("If-Match")}
}

// asNamed gives the field of an error the name that it has in a request.
func asNamed(err error, field, name string) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Field != field {
		return err
	}
	named := *e
	return named.WithField(name)
}

// base is the version that a change is based on, and whether it must be the present one.
func base(ctx context.Context, l userfiles.Lake, path, match, version string) (string, bool, error) {
	match = strings.TrimSpace(match)
	if match == "" {
		return version, false, nil
	}
	if match != "*" && !strings.Contains(match, ",") {
		return strings.Trim(strings.TrimPrefix(match, "W/"), `"`), true, nil
	}
	e, err := l.Read(ctx, path) // one of several, or any
	if err != nil {
		return "", true, err
	}
	if !names(match, e.Version) {
		err := parley.Errorf(parley.CodeConflict, "%s has another version", e.Path).WithField("If-Match").WithHint("read it again, and base the change on what it has now")
		err.Current = parley.Digest(e.Version)
		return "", true, staleError{err}
	}
	return e.Version, true, nil
}

// madeEntity is an answer to a change.
type madeEntity struct {
	Status int
	ETag   string `header:"ETag"`
	Body   parley.EntityChanged
}

func changedTo(status int, m lake.Made) *madeEntity {
	out := &madeEntity{Status: status, Body: parley.EntityChanged{
		Path: m.Path, Version: m.Version, Commit: m.Commit, Merged: m.Merged, Rewritten: some(m.Rewritten), Repeated: m.Repeated,
	}}
	if m.Version != "" {
		out.ETag = `"` + m.Version + `"`
	}
	return out
}

// lakeOf finds the lake of a request.
func (s *Server) lakeOf(ctx context.Context, p parley.Principal, in LakeParam) (userfiles.Lake, error) {
	return s.o.Files.Lake(ctx, s.at(ctx, p, WorkspaceParam(in)))
}

// withLake does something with a lake, by turns of users. change: it needs a lake that may be changed.
func withLake[T any](ctx context.Context, s *Server, p parley.Principal, in LakeParam, change bool, do func(l userfiles.Lake) (T, error)) (T, error) {
	return inTurn(ctx, s, p, func() (v T, err error) {
		l, err := s.lakeOf(ctx, p, in)
		if err == nil && change {
			err = l.Changeable()
		}
		if err != nil {
			return v, err
		}
		return do(l)
	})
}

// looked runs a query of a lake.
func looked[T any](ctx context.Context, s *Server, p parley.Principal, in LakeParam, known string, query func(l userfiles.Lake) (T, error)) (*tagged[T], error) {
	v, err := withLake(ctx, s, p, in, false, query)
	if err != nil {
		return nil, asNamed(err, "query", "q")
	}
	return unlessKnown(v, "", known)
}

// changing makes a change of a lake.
func (s *Server) changing(ctx context.Context, p parley.Principal, in LakeParam, status int, match string, change func(l userfiles.Lake) (lake.Made, error)) (*madeEntity, error) {
	made, err := withLake(ctx, s, p, in, true, change)
	if err != nil {
		return nil, asNamed(orStale(match, err), "key", "Idempotency-Key")
	}
	return changedTo(status, made), nil
}

// keyOf is the key of a change in the lake's history: users of one lake do not meet.
func keyOf(p parley.Principal, key keyText) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.Org + "\x00" + p.User + "\x00" + string(key)))
	return "api-" + hex.EncodeToString(sum[:16])
}

const (
	etagDoc   = "The answer has an ETag; If-None-Match asks only for what is new."
	changeDoc = " The change is one commit, with you as its author. With an Idempotency-Key it is made once."
)

func (s *Server) entityRoutes() {
	if s.o.Files == nil {
		return
	}
	tags := []string{"entities"}
	unchanged := map[string]*huma.Response{"304": {Description: "If-None-Match names what there is"}}
	get := func(id, path, summary, doc string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Tags: tags, Summary: summary, Description: strings.TrimSpace(doc + " " + etagDoc), Responses: cloned(unchanged)}
	}
	route(s, get("list-lake-entities", entitiesPath, "List the entities of a lake", "In the order of the bytes of their paths. Their texts are left out."),
		func(ctx context.Context, p parley.Principal, in *entitiesInput) (*tagged[lake.List], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.List, error) { return l.List(ctx, in.filter(), in.page()) })
		})
	route(s, get("search-entities", entitiesPath+"/search", "Search a lake", "The best first. An entity has all words; if none has, partial says that those were found that have some. At most 1,000 can be paged."),
		func(ctx context.Context, p parley.Principal, in *searchInput) (*tagged[lake.Hits], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.Hits, error) {
				return l.Search(ctx, lake.Query{Text: in.Query, Filter: in.filter()}, in.page())
			})
		})
	route(s, get("read-entity", entityPath, "Read an entity", "With its front matter, links, faults and text. The ETag is its version."),
		func(ctx context.Context, p parley.Principal, in *entityInput) (*tagged[parley.Entity], error) {
			e, err := s.readEntity(ctx, p, in.EntityParam)
			if err != nil {
				return nil, err
			}
			return unlessKnown(e, e.Version, in.NoneMatch)
		})
	s.entityChanges(tags)
	list := func(id, path, summary, doc string) huma.Operation {
		return get(id, entitiesPath+"/"+path, summary, doc)
	}
	route(s, list("list-entity-links", "links", "List the links of an entity", "In their order. A broken one has no path."),
		func(ctx context.Context, p parley.Principal, in *entityInput) (*tagged[entityLinks], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (entityLinks, error) {
				links, err := l.Links(ctx, in.Path)
				return entityLinks{some(links)}, err
			})
		})
	route(s, list("list-entity-backlinks", "backlinks", "List the links to an entity", "In the order of the entities that have them. A page ends between two entities."),
		func(ctx context.Context, p parley.Principal, in *entityListInput) (*tagged[lake.Backlinks], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.Backlinks, error) { return l.Backlinks(ctx, in.Path, in.page()) })
		})
	route(s, list("list-entity-revisions", "history", "List the commits that changed an entity", "The newest first. It need not exist any more."),
		func(ctx context.Context, p parley.Principal, in *entityListInput) (*tagged[lake.History], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.History, error) { return l.History(ctx, in.Path, in.page()) })
		})
	route(s, list("read-entity-revision", "history/entity", "Read what an entity was in a commit", "Its links are not resolved."),
		func(ctx context.Context, p parley.Principal, in *revisionInput) (*tagged[parley.Entity], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (parley.Entity, error) { return l.At(ctx, in.Path, in.Commit) })
		})
	route(s, list("diff-entity", "diff", "Compare an entity between two commits", "As a unified diff. Without from and to it is what is not committed."),
		func(ctx context.Context, p parley.Principal, in *diffInput) (*tagged[entityDiff], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (entityDiff, error) {
				diff, err := l.Diff(ctx, in.Path, in.From, in.To)
				return entityDiff{diff}, err
			})
		})
	route(s, list("validate-entities", "validate", "Look what is wrong in a lake", "Broken links, front matter that is missing or cannot be read, and names that differ only in case, each with its line. A page ends between two entities."),
		func(ctx context.Context, p parley.Principal, in *validateInput) (*tagged[lake.Faults], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.Faults, error) { return l.Validate(ctx, in.Paths, in.page()) })
		})
	route(s, list("list-entity-tree", "tree", "List a folder of a lake", "Its folders, with how many entities are in each at any depth, and a page of the entities directly in it."),
		func(ctx context.Context, p parley.Principal, in *entityTreeInput) (*tagged[lake.Tree], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.Tree, error) { return l.Tree(ctx, in.Path, in.page()) })
		})
	route(s, list("get-entity-graph", "graph", "Read the links among entities", "It is whole: at most 20,000 entities and 100,000 pairs that link. Links to entities that the filter leaves out are not in it."),
		func(ctx context.Context, p parley.Principal, in *graphInput) (*tagged[lake.Graph], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (lake.Graph, error) { return l.Graph(ctx, in.filter()) })
		})
	route(s, list("list-entity-tags", "tags", "Count the entities of each tag", ""),
		func(ctx context.Context, p parley.Principal, in *tagsInput) (*tagged[entityTags], error) {
			return looked(ctx, s, p, in.LakeParam, in.NoneMatch, func(l userfiles.Lake) (entityTags, error) {
				tags, err := l.Tags(ctx)
				return entityTags{tags}, err
			})
		})
	s.feedRoutes(tags)
}

type entityLinks struct {
	Links []parley.EntityLink `json:"links" nullable:"false"`
}

type entityDiff struct {
	Diff string `json:"diff"`
}

type entityTags struct {
	Tags map[string]int `json:"tags"`
}

func (s *Server) readEntity(ctx context.Context, p parley.Principal, in EntityParam) (parley.Entity, error) {
	return inTurn(ctx, s, p, func() (e parley.Entity, err error) {
		l, err := s.lakeOf(ctx, p, in.LakeParam)
		if err != nil {
			return e, err
		}
		return l.Read(ctx, in.Path)
	})
}

// entityChanges are the routes that change entities.
func (s *Server) entityChanges(tags []string) {
	stale := map[string]*huma.Response{"412": {Description: "If-Match names another version; current in the error is the one that the entity has.", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(Problem{})}}}}
	route(s, huma.Operation{
		OperationID: "create-entity", Method: http.MethodPost, Path: entitiesPath, Tags: tags, DefaultStatus: http.StatusCreated, Summary: "Make an entity",
		Description: "Give its path, which ends with .md, and its text with the front matter." + changeDoc,
	}, func(ctx context.Context, p parley.Principal, in *createEntityInput) (*madeEntity, error) {
		if in.Body.Path == "" {
			return nil, invalid("path", "the entity needs a path").WithHint("such as docs/plan.md")
		}
		if in.Body.Version != "" {
			return nil, invalid("version", "an entity that is made has no version yet").WithHint("leave it out, or PUT the entity")
		}
		return s.changing(ctx, p, in.LakeParam, http.StatusCreated, "", func(l userfiles.Lake) (lake.Made, error) {
			return l.Create(ctx, lake.Change{Path: in.Body.Path, Body: in.Body.Body, Author: userfiles.AuthorOf(p), Reason: in.Body.Reason, Key: keyOf(p, in.Key)})
		})
	})
	route(s, huma.Operation{
		OperationID: "update-entity", Method: http.MethodPut, Path: entityPath, Tags: tags, Summary: "Change the text of an entity",
		Description: "Give the whole new text, and the version that it is based on, in version or as If-Match. With version, what others have changed since is merged by lines; what does not fit is a conflict (409). " +
			"With If-Match the entity must still have that version (412)." + changeDoc,
		Responses: cloned(stale),
	}, func(ctx context.Context, p parley.Principal, in *updateEntityInput) (*madeEntity, error) {
		if in.Body.Path != "" && in.Body.Path != in.Path {
			return nil, invalid("path", "the paths of the request and of its body differ").WithHint("leave out that of the body; to give the entity another path, move it")
		}
		return s.changing(ctx, p, in.LakeParam, http.StatusOK, in.Match, func(l userfiles.Lake) (m lake.Made, err error) {
			from, exact, err := base(ctx, l, in.Path, in.Match, in.Body.Version)
			if err != nil {
				return m, err
			}
			return l.Update(ctx, lake.Change{Path: in.Path, Body: in.Body.Body, Base: from, Exact: exact, Author: userfiles.AuthorOf(p), Reason: in.Body.Reason, Key: keyOf(p, in.Key)})
		})
	})
	route(s, huma.Operation{
		OperationID: "move-entity", Method: http.MethodPost, Path: entityPath + "/move", Tags: tags, Summary: "Give an entity another path",
		Description: "The links to it lead to the new path afterwards, those in it where they led before; rewritten names the entities whose links were changed." + changeDoc,
		Responses:   cloned(stale),
	}, func(ctx context.Context, p parley.Principal, in *moveEntityInput) (*madeEntity, error) {
		return s.changing(ctx, p, in.LakeParam, http.StatusOK, in.Match, func(l userfiles.Lake) (m lake.Made, err error) {
			from, _, err := base(ctx, l, in.Path, in.Match, in.Body.Version)
			if err != nil {
				return m, err
			}
			return l.Move(ctx, lake.Change{Path: in.Path, To: in.Body.To, Base: from, Author: userfiles.AuthorOf(p), Reason: in.Body.Reason, Key: keyOf(p, in.Key)})
		})
	})
	route(s, huma.Operation{
		OperationID: "delete-entity", Method: http.MethodDelete, Path: entityPath, Tags: tags, Summary: "Delete an entity",
		Description: "Links to it are broken then; its history stays." + changeDoc, Responses: cloned(stale),
	}, func(ctx context.Context, p parley.Principal, in *deleteEntityInput) (*madeEntity, error) {
		return s.changing(ctx, p, in.LakeParam, http.StatusOK, in.Match, func(l userfiles.Lake) (m lake.Made, err error) {
			from, _, err := base(ctx, l, in.Path, in.Match, in.Version)
			if err != nil {
				return m, err
			}
			return l.Delete(ctx, lake.Change{Path: in.Path, Base: from, Author: userfiles.AuthorOf(p), Reason: in.Reason, Key: keyOf(p, in.Key)})
		})
	})
}

func cloned(m map[string]*huma.Response) map[string]*huma.Response {
	out := map[string]*huma.Response{}
	for k, v := range m {
		one := *v
		out[k] = &one
	}
	return out
}

func (in LakeParam) of(context.Context, Engine, parley.Principal) (string, error) { return in.App, nil }
