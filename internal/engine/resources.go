package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// A message may have resources of MCP servers. They are read before the message is accepted, and
// their texts are part of it in the log: nobody asks a server again, whatever becomes of the turn.
// A resource that is an image or a document is kept as an artifact by the append that accepts the
// message.

const (
	// readWithin bounds the reading of all resources of a message. A server may have to be
	// started for it.
	readWithin = 30 * time.Second
	// maxReadFiles limits the images and documents of a message, in bytes.
	maxReadFiles = 8 << 20
	// Each message that is read may hold that, and what a server has just sent.
	readSlots  = 16
	readEach   = 3  // of them, by one user
	readQueued = 32 // that one user may have waiting
	// maxResourcePage limits a page of a list, in bytes.
	maxResourcePage = 256 << 10
	maxResourceRows = 200
)

// readings are the messages and lists for which servers are asked.
type readings struct {
	turns fair.Turns
	mu    sync.Mutex
	of    map[readingKey]chan struct{} // messages with an idempotency key, until they are accepted or refused
}

type readingKey struct {
	session parley.SessionID
	key     string
}

// begin notes that a message is read. If another one with its key is, it returns what is closed
// when that has come to its end.
func (r *readings) begin(k readingKey) (end func(), other <-chan struct{}) {
	if k.key == "" {
		return func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.of[k]; other != nil {
		return nil, other
	}
	if r.of == nil {
		r.of = map[readingKey]chan struct{}{}
	}
	done := make(chan struct{})
	r.of[k] = done
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.of, k)
		close(done)
	}, nil
}

// gather finds what a message stands for: what its slash command says, and its resources. That may
// take a while, and the session is not locked meanwhile; it returns the session locked again. What
// could not be found out is a.wrong. Of a message that was accepted before, nothing is asked again.
// end is to be called once the message is accepted or refused.
func (e *Engine) gather(ctx context.Context, p parley.Principal, s *session, a *asked) (_ *session, end func(), err error) {
	end = func() {}
	if e.o.Gathered != nil {
		a.read = e.o.Gathered(ctx, a.Send)
		return s, end, nil
	}
	for {
		name, args, ok := parley.Slash(a.Message)
		ok = ok && s.tools != nil && s.tools.HasCommand(name)
		wanted, wrong := s.wanted(a.Send)
		if !ok && wanted == nil && wrong == nil || s.view.Status != parley.Active {
			return s, end, nil
		}
		key := e.aliasOf(a.Key)
		if key != "" {
			if _, found, err := s.byKey(ctx, p, key, bodyOf(*a)); found || err != nil {
				return s, end, nil //nolint:nilerr // send says so
			}
		}
		if wrong != nil {
			a.wrong = wrong
			return s, end, nil
		}
		id := s.id
		done, other := e.readings.begin(readingKey{id, key})
		if other != nil {
			s.release()
			select {
			case <-other:
			case <-ctx.Done():
				return nil, end, context.Cause(ctx)
			}
			if s, err = e.ready(ctx, p, id); err != nil {
				return nil, end, err
			}
			continue
		}
		tools, takes, owner := s.tools.Share(), s.takes(a.Send), s.view.Principal()
		asking, cancel := s.whileActive(ctx)
		s.release()
		failed := done // also if a toolset panics
		defer func() { failed() }()
		func() {
			defer tools.Release()
			defer cancel()
			if ok {
				a.expand(asking, tools, name, args)
			}
			if len(wanted) > 0 && a.wrong == nil {
				a.read, a.files, a.wrong = e.readAll(asking, reader{tools: tools, owner: owner, session: id, takes: takes, given: a.Credentials}, wanted)
			}
		}()
		if s, err = e.ready(ctx, p, id); err != nil {
			return nil, end, err
		}
		failed = func() {}
		return s, done, nil
	}
}

// whileActive returns a context that also ends when the session does, so that nobody waits for a
// server in vain. The caller holds the lock, and calls cancel without it.
func (s *session) whileActive(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, stop := context.WithCancel(ctx)
	if _, err := s.e.enter(s.id); err != nil {
		return ctx, stop
	}
	changed := s.changed
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.e.leave(s)
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			select {
			case s.lock <- struct{}{}:
			case <-ctx.Done():
				return
			}
			over := s.gone || s.view.Status != parley.Active
			changed = s.changed
			s.unlock()
			if over {
				stop()
				return
			}
		}
	}()
	return ctx, func() {
		stop()
		<-done
	}
}

// expand finds what a slash command says.
func (a *asked) expand(ctx context.Context, tools *scope.Resolved, name, args string) {
	text, err := tools.Expand(ctx, name, args)
	if a.wrong = err; err == nil {
		a.command = &parley.Part{Type: parley.PartCommand, Name: name, Text: text}
	}
}

// resource is one that a message has.
type resource struct {
	parley.ResourceRef
	field string // of the message, where it is named
	from  seam.ResourceServer
}

// wanted are the resources of a message, each once. A mention of what is no server is none.
func (s *session) wanted(c parley.Send) (list []resource, err error) {
	if s.tools == nil {
		if c.Resources != nil {
			err = errNoTools // unless the app is off, which is said first
		}
		return nil, err
	}
	add := func(r parley.ResourceRef, field string) bool {
		from, ok := s.tools.ResourceServer(r.Server)
		if !ok {
			return false
		}
		r.Server, _ = from.ServerName()
		if !slices.ContainsFunc(list, func(have resource) bool { return have.Is(r) }) {
			list = append(list, resource{r, field, from})
		}
		return true
	}
	for i, r := range c.Resources {
		if !add(r, fmt.Sprintf("resources[%d]", i)) {
			return nil, s.noServer(r.Server).WithField(fmt.Sprintf("resources[%d].server", i))
		}
	}
	for _, r := range parley.Mentions(c.Message) {
		add(r, "message")
	}
	if len(list) > parley.MaxResources {
		return nil, parley.Errorf(parley.CodeTooLarge, "the message has %d resources; at most %d are allowed", len(list), parley.MaxResources).
			WithField(list[parley.MaxResources].field).WithHint("send some of them in another message")
	}
	return list, nil
}

func (s *session) noServer(name string) *parley.Error {
	var names []string
	for _, in := range s.tools.ResourceServers() {
		name, _ := in.ServerName()
		names = append(names, name)
	}
	hint := "the session has no MCP servers"
	if names != nil {
		hint = "the session has " + parley.Cut(strings.Join(names, ", "), 300) + "; one of a file is there once it is approved"
	}
	return parley.Errorf(parley.CodeInvalid, "there is no MCP server %q", parley.Cut(name, 80)).WithHint("%s", hint)
}

// takes is what the model that is to answer takes besides text.
type takes struct {
	model         string
	images, files bool
}

func (s *session) takes(c parley.Send) takes {
	app := s.tools.App()
	entry := parley.TurnRequest{Schedule: c.Schedule}.Entry(app)
	name := cmp.Or(c.Model, s.view.Model, app.Agents[entry].Model, app.Model)
	m, err := s.e.o.Models.Model(name)
	if err != nil { // which its call says
		return takes{name, true, true}
	}
	return takes{name, m.Info().Images, m.Info().Files}
}

// reader is on whose behalf resources are read.
type reader struct {
	tools   *scope.Resolved
	owner   parley.Principal
	session parley.SessionID
	takes   takes
	given   parley.Credentials
}

// credential implements Credential of [seam.Reading]: what came with the message, for a host that
// a tool of the scope declares.
func (r reader) credential(name, host string) (string, error) {
	for _, d := range r.tools.Tools().Decls() {
		for _, c := range d.Credentials {
			if c.Name == name && slices.ContainsFunc(c.Hosts, func(declared string) bool { return strings.EqualFold(declared, host) }) {
				if v, ok := r.given[name]; ok {
					return v, nil
				}
				return "", parley.Errorf(parley.CodeInvalid, "reading this needs the credential %s, which did not come with the message", name)
			}
		}
	}
	return "", parley.Errorf(parley.CodeForbidden, "no tool declares that the credential %s goes to %s", name, host)
}

// readAll reads resources, one after the other. The parts are for the message, and the files are
// its artifacts: their bytes are stored, and they exist once they are in the log.
func (e *Engine) readAll(ctx context.Context, r reader, list []resource) (parts []parley.Part, files []parley.ArtifactRef, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readWithin, fmt.Errorf("the resources of a message have %s: %w", readWithin, context.DeadlineExceeded))
	defer cancel()
	defer context.AfterFunc(e.open, cancel)()
	leave, err := e.asking(ctx, r.owner)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	room := cmp.Or(e.o.Limits.MaxMessage, parley.MaxMessage)
	media := maxReadFiles
	var kept []seam.File
	for _, want := range list {
		got, err := want.from.Read(ctx, seam.Reading{URI: want.URI, Principal: r.owner, Credential: r.credential})
		if err == nil {
			err = ctx.Err()
		}
		if e.open.Err() != nil {
			return nil, nil, errShutdown
		}
		if err != nil {
			return nil, nil, inField(err, want.field)
		}
		if len(got) == 0 {
			got = []seam.ResourceContent{{}}
		}
		for _, piece := range got {
			part := parley.Part{Type: parley.PartResource, Server: want.Server, URI: want.URI, Title: want.Title, MediaType: piece.MediaType, Text: piece.Text}
			if f := piece.File; f != nil {
				var file seam.File
				if part, file, err = r.file(ctx, want, *f); err != nil {
					return nil, nil, err
				}
				media -= len(file.Body)
				kept = append(kept, file)
			}
			room -= len(part.Text)
			if room < 0 || media < 0 || len(parts) == 2*parley.MaxResources {
				return nil, nil, parley.Errorf(parley.CodeTooLarge, "the resource %s is too large: the resources of a message may have %s of text, %s of images and documents, and %d pieces",
					want, sizeText(cmp.Or(e.o.Limits.MaxMessage, parley.MaxMessage)), sizeText(maxReadFiles), 2*parley.MaxResources).
					WithField(want.field).WithHint("leave it out, or attach a smaller part of it")
			}
			parts = append(parts, part)
		}
	}
	if files, err = e.keepRead(ctx, r, kept); err != nil {
		return nil, nil, err
	}
	for i, n := 0, 0; i < len(parts); i++ {
		if parts[i].Type != parley.PartResource {
			parts[i].Artifact, parts[i].Size = files[n].ID, files[n].Size
			n++
		}
	}
	return parts, files, nil
}

// asking waits until servers may be asked for a user.
func (e *Engine) asking(ctx context.Context, who parley.Principal) (leave func(), err error) {
	leave, err = e.readings.turns.Enter(ctx, who)
	if errors.Is(err, fair.ErrFull) {
		return nil, parley.Errorf(parley.CodeRateLimited, "%d messages and lists of yours are waiting for resources already, which is the limit", readQueued).
			WithHint("send one after the other").WithRetry(5 * time.Second)
	}
	if err != nil {
		return nil, parley.Errorf(parley.CodeTimeout, "other resources were read first: %w", err).WithHint("try again in a moment")
	}
	return leave, nil
}

// inField says in which field of the message the cause of an error is.
func inField(err error, field string) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok {
		e = parley.Errorf(parley.CodeTool, "%w", err)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			e.Code = parley.CodeTimeout
		}
	}
	return e.WithField(field)
}

// file is the part of a message for a file, and the file as it is kept: an image that is too large
// for models is made smaller. Its artifact is set later.
func (r reader) file(ctx context.Context, of resource, f seam.File) (parley.Part, seam.File, error) {
	p := parley.Part{Type: parley.PartFile, Server: of.Server, URI: of.URI, Title: of.Title, MediaType: f.MediaType, Name: f.Name}
	refuse := func(why string) (parley.Part, seam.File, error) {
		return parley.Part{}, f, parley.Errorf(parley.CodeInvalid, "the resource %s %s", of, why).WithField(of.field).WithHint("leave it out")
	}
	if strings.HasPrefix(f.MediaType, "image/") {
		p.Type = parley.PartImage
	}
	switch {
	case p.Type == parley.PartImage && !r.takes.images:
		return refuse("is an image, and the model " + r.takes.model + " accepts none")
	case p.Type == parley.PartFile && f.MediaType != "application/pdf":
		return refuse(fmt.Sprintf("is no text, but %s, which cannot be attached", cmp.Or(parley.Cut(f.MediaType, 60), "bytes of a kind that its server does not name")))
	case p.Type == parley.PartFile && !r.takes.files:
		return refuse("is a document, and the model " + r.takes.model + " accepts none")
	}
	for _, v := range r.given {
		if strings.Contains(string(f.Body), v) {
			return refuse("has a credential of the message in it")
		}
	}
	if p.Type == parley.PartImage {
		fit, err := picture.Fit(ctx, f.Body)
		switch {
		case ctx.Err() != nil:
			return p, f, context.Cause(ctx)
		case err != nil:
			return refuse("cannot be attached: " + parley.Info(err).Message)
		}
		f.Body, f.MediaType = fit.Body, fit.MediaType
		p.MediaType = f.MediaType
	}
	return p, f, nil
}

// keepRead stores the bytes of files.
func (e *Engine) keepRead(ctx context.Context, r reader, files []seam.File) (refs []parley.ArtifactRef, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	size := 0
	for _, f := range files {
		size += len(f.Body)
	}
	free, err := e.keep(ctx, r.owner, 0, int64(size))
	if err != nil {
		return nil, err
	}
	defer free()
	for _, f := range files {
		ref, err := e.keepFile(ctx, r.owner, r.session, f)
		if err != nil {
			return nil, err
		}
		refs = append(refs, *ref)
	}
	return refs, nil
}

// stored are the events by which a message's files become artifacts.
func stored(turn parley.TurnID, agent parley.AgentPath, files []parley.ArtifactRef) (list []parley.Event) {
	for _, ref := range files {
		list = append(list, parley.NewEvent(turn, agent, parley.ArtifactStored{ArtifactRef: ref}))
	}
	return list
}

// readSize is the size of a message's resources in bytes.
func (c asked) readSize() (n int) {
	for _, p := range c.read {
		n += len(p.Text) + len(p.URI) + len(p.Title)
	}
	for _, f := range c.files {
		n += int(f.Size)
	}
	return n
}

// again are the resources that a retried message had. They say what they said; their files must
// still be there.
func (s *session) again(ctx context.Context, p parley.Principal, c asked) error {
	for _, part := range c.read {
		if part.Artifact == "" || len(c.files) > 0 {
			continue
		}
		if _, err := s.attached(ctx, p, part.Artifact, parley.Send{}); err != nil {
			return parley.Errorf(err.Code, "the resource %s of the message is not there any more", parley.ResourceRef{Server: part.Server, URI: part.URI}).
				WithHint("send the message again instead")
		}
	}
	return nil
}

// Resources lists what messages of a session may have attached, behind after, by server and URI.
// All servers are asked at once; what keeps one of them from answering does not hide the others. It
// has none if the app is off. next is the last one of the page, or zero if no more follow.
func (e *Engine) Resources(ctx context.Context, p parley.Principal, id parley.SessionID, after parley.ResourceRef, limit int) (page parley.ResourceList, next parley.ResourceRef, err error) {
	page.Resources = []parley.Resource{}
	info, err := e.Session(ctx, p, id)
	if err != nil {
		return page, next, err
	}
	if _, err := e.appOf(info.App); err != nil {
		return page, next, nil //nolint:nilerr // as with commands
	}
	return e.resourcesIn(ctx, seam.Scope{Principal: parley.Principal{User: info.User, Org: info.Org}, App: info.App, Workspace: info.Workspace}, after, limit)
}

// AppResources is Resources for a new session of the app in the app's default workspace. It makes
// no session.
func (e *Engine) AppResources(ctx context.Context, p parley.Principal, app string, after parley.ResourceRef, limit int) (page parley.ResourceList, next parley.ResourceRef, err error) {
	at, err := e.newScope(p, app, "")
	if err != nil {
		return page, next, err
	}
	return e.resourcesIn(ctx, at, after, limit)
}

func (e *Engine) resourcesIn(ctx context.Context, at seam.Scope, after parley.ResourceRef, limit int) (page parley.ResourceList, next parley.ResourceRef, err error) {
	page.Resources = []parley.Resource{}
	in, err := e.scopes.Resolve(ctx, at)
	if err != nil {
		return page, next, err
	}
	defer in.Release()
	servers := in.ResourceServers()
	if len(servers) == 0 {
		return page, next, nil
	}
	leave, err := e.asking(ctx, at.Principal)
	if err != nil {
		return page, next, err
	}
	defer leave()
	type answer struct {
		list []parley.Resource
		cut  bool
		err  error
	}
	answers := make([]answer, len(servers))
	var work sync.WaitGroup
	for i, s := range servers {
		work.Go(func() { answers[i].list, answers[i].cut, answers[i].err = s.Resources(ctx) })
	}
	work.Wait()
	if limit <= 0 || limit > maxResourceRows {
		limit = maxResourceRows
	}
	size := 0
	for i, a := range answers {
		name, _ := servers[i].ServerName()
		if a.err != nil {
			failed := parley.FailedServer{Server: name, Error: parley.Info(a.err)}
			if in, ok := errors.AsType[*seam.LoginError](a.err); ok {
				failed.Login = in.Link
			}
			page.Failed = append(page.Failed, failed)
		}
		if a.cut {
			page.Cut = append(page.Cut, name)
		}
		for _, r := range a.list {
			ref := parley.ResourceRef{Server: name, URI: r.URI}
			if cmp.Or(strings.Compare(name, after.Server), strings.Compare(r.URI, after.URI)) <= 0 {
				continue
			}
			size += len(r.URI) + len(r.Name) + len(r.Description) + 200
			if next == (parley.ResourceRef{}) && (len(page.Resources) == limit || size > maxResourcePage && len(page.Resources) > 0) {
				last := page.Resources[len(page.Resources)-1]
				next = parley.ResourceRef{Server: last.Server, URI: last.URI}
			}
			if next == (parley.ResourceRef{}) {
				r.Server = ref.Server
				page.Resources = append(page.Resources, r)
			}
		}
	}
	return page, next, nil
}

// sizeText writes a number of bytes for people.
func sizeText(bytes int) string {
	switch {
	case bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
