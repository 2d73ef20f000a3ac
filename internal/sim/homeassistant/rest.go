package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// routes registers the paths, both direct and behind the Supervisor's proxy.
func (h *House) routes() {
	h.mux = http.NewServeMux()
	api := http.NewServeMux()
	on := func(pattern string, admin bool, f func(w http.ResponseWriter, r *http.Request, u *user)) {
		api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			u, _ := r.Context().Value(userKey{}).(*user)
			h.mu.Lock()
			denied := admin && (!u.admin || h.faults.Denied)
			h.mu.Unlock()
			if denied {
				http.Error(w, "401: Unauthorized", http.StatusUnauthorized)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			f(w, r, u)
		})
	}
	// locked makes a handler that runs f with the house locked and then answers.
	locked := func(f func(r *http.Request, u *user) (int, any)) func(http.ResponseWriter, *http.Request, *user) {
		return func(w http.ResponseWriter, r *http.Request, u *user) {
			h.mu.Lock()
			h.advance()
			code, v := f(r, u)
			raw, err := json.Marshal(v)
			h.mu.Unlock()
			if err != nil {
				code, raw = http.StatusInternalServerError, []byte(`{"message":"Internal error"}`)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write(raw)
		}
	}
	ok := func(v any) (int, any) { return http.StatusOK, v }

	on("GET /api/{$}", false, locked(func(*http.Request, *user) (int, any) { return ok(attrs{"message": "API running."}) }))
	on("GET /api/config", false, locked(func(*http.Request, *user) (int, any) { return ok(h.config()) }))
	on("GET /api/core/state", false, locked(func(*http.Request, *user) (int, any) {
		return ok(attrs{"state": "RUNNING", "recorder_state": attrs{"migration_in_progress": false, "migration_is_live": false}})
	}))
	on("GET /api/components", false, locked(func(*http.Request, *user) (int, any) { return ok(h.components()) }))
	on("GET /api/events", false, locked(func(*http.Request, *user) (int, any) {
		return ok([]any{attrs{"event": "state_changed", "listener_count": len(h.conns)}, attrs{"event": "*", "listener_count": 1}})
	}))
	on("POST /api/events/{kind}", true, locked(func(r *http.Request, u *user) (int, any) {
		data, err := body(r)
		if err != nil {
			return http.StatusBadRequest, attrs{"message": "Event data should be valid JSON."}
		}
		h.emit(event{kind: r.PathValue("kind"), at: h.now(), ctx: origin{id: h.newID(h.now()), user: u.id}, data: data})
		return ok(attrs{"message": "Event " + r.PathValue("kind") + " fired."})
	}))
	on("GET /api/services", false, locked(func(*http.Request, *user) (int, any) {
		var out []any
		all := h.serviceList()
		names := make([]string, 0, len(all))
		for d := range all {
			names = append(names, d)
		}
		slices.Sort(names)
		for _, d := range names {
			out = append(out, attrs{"domain": d, "services": all[d]})
		}
		return ok(out)
	}))
	on("POST /api/services/{domain}/{service}", false, h.restCall)
	on("GET /api/states", false, locked(func(*http.Request, *user) (int, any) {
		var out []any
		for _, id := range h.order {
			out = append(out, h.entities[id].now().json(id))
		}
		return ok(out)
	}))
	on("GET /api/states/{id}", false, locked(func(r *http.Request, _ *user) (int, any) {
		e := h.entities[r.PathValue("id")]
		if e == nil {
			return http.StatusNotFound, attrs{"message": "Entity not found."}
		}
		return ok(e.now().json(e.id))
	}))
	on("POST /api/states/{id}", true, locked(h.postState))
	on("DELETE /api/states/{id}", true, locked(func(r *http.Request, _ *user) (int, any) {
		if !h.remove(r.PathValue("id")) {
			return http.StatusNotFound, attrs{"message": "Entity not found."}
		}
		return ok(attrs{"message": "Entity removed."})
	}))
	on("GET /api/history/period", false, locked(h.getHistory))
	on("GET /api/history/period/{start}", false, locked(h.getHistory))
	on("GET /api/logbook", false, locked(h.getLogbook))
	on("GET /api/logbook/{start}", false, locked(h.getLogbook))
	on("POST /api/config/core/check_config", true, locked(func(*http.Request, *user) (int, any) {
		return ok(attrs{"result": "valid", "errors": nil, "warnings": nil})
	}))
	on("GET /api/calendars", false, locked(func(*http.Request, *user) (int, any) {
		return ok([]any{attrs{"entity_id": "calendar.family", "name": "Family"}})
	}))
	on("GET /api/calendars/{id}", false, locked(func(r *http.Request, _ *user) (int, any) {
		if r.PathValue("id") != "calendar.family" {
			return http.StatusNotFound, attrs{"message": "Entity not found"}
		}
		day := h.day(h.made)
		return ok([]any{attrs{"summary": "Heat pump service", "start": attrs{"dateTime": stamp(day.Add(33 * h1))}, "end": attrs{"dateTime": stamp(day.Add(34 * h1))}, "description": "", "location": "", "uid": nil, "recurrence_id": nil, "rrule": nil}})
	}))
	if h.o.LogFile {
		on("GET /api/error_log", true, h.getErrorLog)
	}
	on("POST /api/template", true, func(w http.ResponseWriter, r *http.Request, _ *user) {
		m, err := body(r)
		h.mu.Lock()
		out, _, bad := h.render(text(m, "template"))
		h.mu.Unlock()
		if err != nil || bad != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(attrs{"message": fmt.Sprintf("Error rendering template: %v", bad)})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, out)
	})

	h.mux.HandleFunc("GET /api/websocket", func(w http.ResponseWriter, r *http.Request) { h.serveSocket(w, r, false) })
	h.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) { h.front(w, r, api, false) })
	if h.o.SupervisorToken != "" {
		h.mux.HandleFunc("GET /core/websocket", func(w http.ResponseWriter, r *http.Request) { h.serveSocket(w, r, true) })
		h.mux.Handle("/core/api/", http.StripPrefix("/core", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.front(w, r, api, true) })))
	}
}

type userKey struct{}

func withUser(ctx context.Context, u *user) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// ServeHTTP implements http.Handler.
func (h *House) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// fallen answers as a house that is down.
func fallen(w http.ResponseWriter, proxied bool) {
	if proxied {
		http.Error(w, "502: Bad Gateway", http.StatusBadGateway)
		return
	}
	panic(http.ErrAbortHandler)
}

// front runs before every REST route: faults and authentication.
func (h *House) front(w http.ResponseWriter, r *http.Request, api http.Handler, proxied bool) {
	h.mu.Lock()
	down := h.faults.Down
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if x := r.Header.Get("X-Ha-Access"); proxied && x != "" {
		token = x
	}
	u := h.known(token, proxied)
	h.mu.Unlock()
	switch {
	case down || h.life.Err() != nil:
		fallen(w, proxied)
	case !h.wait(r.Context()):
	case u == nil:
		http.Error(w, "401: Unauthorized", http.StatusUnauthorized)
	default:
		api.ServeHTTP(w, r.WithContext(withUser(r.Context(), u)))
	}
}

func body(r *http.Request) (attrs, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || len(raw) == 0 {
		return attrs{}, err
	}
	var m attrs
	err = json.Unmarshal(raw, &m)
	return m, err
}

func (h *House) restCall(w http.ResponseWriter, r *http.Request, u *user) {
	data, err := body(r)
	if err != nil {
		http.Error(w, "400: Bad Request", http.StatusBadRequest)
		return
	}
	domain, name := r.PathValue("domain"), r.PathValue("service")
	_, wants := r.URL.Query()["return_response"]
	say := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	h.mu.Lock()
	h.advance()
	s := h.services[domain][name]
	switch {
	case s != nil && wants && s.response == "":
		h.mu.Unlock()
		say(http.StatusBadRequest, attrs{"message": "Service does not support responses. Remove return_response from request."})
		return
	case s != nil && !wants && s.response == "only":
		h.mu.Unlock()
		say(http.StatusBadRequest, attrs{"message": "Service call requires responses but caller did not ask for responses. Add ?return_response to query parameters."})
		return
	case h.faults.DropBefore > 0:
		h.faults.DropBefore--
		h.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	changed, response, no := h.call(domain, name, data, nil, origin{id: h.newID(h.now()), user: u.id}, 0)
	states := []any{}
	for _, id := range changed {
		states = append(states, h.entities[id].now().json(id))
	}
	lost := no == nil && h.faults.DropAfter > 0
	if lost {
		h.faults.DropAfter--
	}
	h.mu.Unlock()
	switch {
	case lost:
		panic(http.ErrAbortHandler)
	case no != nil && no.code == codeFailed:
		http.Error(w, "500: Internal Server Error", http.StatusInternalServerError)
	case no != nil:
		http.Error(w, "400: Bad Request", http.StatusBadRequest)
	case wants:
		say(http.StatusOK, attrs{"changed_states": states, "service_response": response})
	default:
		say(http.StatusOK, states)
	}
}

func (h *House) postState(r *http.Request, _ *user) (int, any) {
	bad := func(msg string) (int, any) { return http.StatusBadRequest, attrs{"message": msg} }
	m, err := body(r)
	if err != nil {
		return bad("Invalid JSON specified.")
	}
	state, there := m["state"].(string)
	id := r.PathValue("id")
	domain, name, dotted := strings.Cut(id, ".")
	switch {
	case !there:
		return bad("No state attribute specified.")
	case !dotted || domain == "" || name == "":
		return bad("Invalid entity ID specified.")
	case len(state) > 255:
		return bad("Invalid state specified.")
	}
	a, _ := m["attributes"].(attrs)
	if a == nil {
		a = attrs{}
	}
	code := http.StatusOK
	if h.report(id, state, a) {
		code = http.StatusCreated
	}
	return code, h.entities[id].now().json(id)
}

// period parses start and end of a request for history.
func (h *House) period(r *http.Request) (window, string) {
	q := r.URL.Query()
	w := window{from: h.now().Add(-24 * h1)}
	if s := r.PathValue("start"); s != "" {
		t, err := parseTime(s)
		if err != nil {
			return w, "Invalid datetime"
		}
		w.from = t
	}
	w.to = w.from.Add(24 * h1)
	if s := q.Get("end_time"); s != "" {
		t, err := parseTime(s)
		if err != nil {
			return w, "Invalid end_time"
		}
		w.to = t
	}
	return w, ""
}

func (h *House) getHistory(r *http.Request, _ *user) (int, any) {
	w, wrong := h.period(r)
	q := r.URL.Query()
	w.entities, _ = texts(q.Get("filter_entity_id"))
	if wrong == "" && q.Get("filter_entity_id") == "" {
		wrong = "filter_entity_id is missing"
	}
	if wrong != "" {
		return http.StatusBadRequest, attrs{"message": wrong}
	}
	if w.from.After(h.now()) {
		return http.StatusOK, []any{}
	}
	w.minimal, w.noAttribute, w.noStart = q.Has("minimal_response"), q.Has("no_attributes"), q.Has("skip_initial_state")
	w.all = q.Get("significant_changes_only") == "0"
	return http.StatusOK, h.historyREST(w)
}

func (h *House) getLogbook(r *http.Request, _ *user) (int, any) {
	w, wrong := h.period(r)
	if wrong != "" {
		return http.StatusBadRequest, attrs{"message": wrong}
	}
	if e := r.URL.Query().Get("entity"); e != "" {
		w.entities, _ = texts(e)
	}
	return http.StatusOK, rows(h.logbook(w), true)
}

func (h *House) getErrorLog(w http.ResponseWriter, _ *http.Request, _ *user) {
	h.mu.Lock()
	lines := make([]string, 0, len(h.log))
	for i := len(h.log) - 1; i >= 0; i-- {
		l := h.log[i]
		for _, m := range l.messages {
			lines = append(lines, fmt.Sprintf("%s %s (MainThread) [%s] %s\n", l.last.Format("2006-01-02 15:04:05.000"), l.level, l.name, m))
		}
	}
	h.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, strings.Join(lines, ""))
}
