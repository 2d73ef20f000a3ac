package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// The tool ha_call_service.

type callInput struct {
	Service string         `json:"service"`
	Target  target         `json:"target"`
	Data    map[string]any `json:"data"`
	Returns bool           `json:"return_response"`
}

type target struct {
	Entities strings1 `json:"entity_id"`
	Devices  strings1 `json:"device_id"`
	Areas    strings1 `json:"area_id"`
}

// strings1 is one id or a list of ids. Home Assistant also accepts several ids in one string,
// but policy rules about arguments would not see them, so here such a string is not an id.
type strings1 []string

func (s *strings1) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*s = strings1{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(s))
}

type callAnswer struct {
	Service  string          `json:"service"`
	Context  string          `json:"context_id,omitempty"`
	Entities []effect        `json:"entities"`
	Response json.RawMessage `json:"response,omitempty"`
	found    bool            // derived from the states, because the answer was lost
}

// effect is the outcome of a call for one entity.
type effect struct {
	ID      string `json:"entity_id"`
	Name    string `json:"name"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Changed string `json:"last_changed"`
	ByThis  bool   `json:"changed_by_this_call"`
	AsAsked *bool  `json:"as_asked,omitempty"` // for services that set a state
	Detail  any    `json:"attributes,omitempty"`
}

const maxTargets = 50

var validService = regexp.MustCompile(`^[a-z0-9_]+\.[a-z0-9_]+$`)

// Allowed reports whether a service is on the list of allowed services, and if not, why.
func (t *Toolset) Allowed(service string) (reason string, ok bool) {
	if len(t.o.AllowServices) == 0 {
		return "actuation is off: no service is on the list of allowed ones", false
	}
	for _, p := range t.o.AllowServices {
		if p == "*" || p == service || strings.HasSuffix(p, ".*") && strings.HasPrefix(service, strings.TrimSuffix(p, "*")) {
			return "", true
		}
	}
	return fmt.Sprintf("%s is not on the list of allowed services: %s", service, strings.Join(t.o.AllowServices, ", ")), false
}

// checked is a call that may be made, with its targets.
type checked struct {
	domain, name string
	in           callInput
	entities     []Entity // that are targets
	reached      []string // ids of the targets, of the members of groups and scenes, and of entities named in the data
}

// check rejects mistakes that can be seen before anything is sent. Home Assistant itself ignores
// entities that it does not know.
func (t *Toolset) check(in callInput) (c checked, err error) {
	// The name is taken as written, because rules about arguments have judged exactly this text.
	if !validService.MatchString(in.Service) {
		return c, parley.Errorf(parley.CodeInvalid, "%q is not a service", clip(in.Service, 80)).WithField("service").WithHint("write domain.service, such as light.turn_on")
	}
	if why, ok := t.Allowed(in.Service); !ok {
		return c, parley.Errorf(parley.CodeForbidden, "%s", why).WithField("service").WithHint("the operator can allow it with allowlisted_services; nothing was called")
	}
	c.in = in
	c.domain, c.name, _ = strings.Cut(in.Service, ".")
	if known, ok := t.index.service(c.domain, c.name); !ok {
		return c, parley.Errorf(parley.CodeNotFound, "Home Assistant has no service %s", in.Service).WithField("service").WithHint("%s", known)
	}
	if err := t.index.inData(&c, in.Data, "data", 0); err != nil {
		return c, err
	}
	for _, id := range in.Target.Entities {
		if id == "all" {
			return c, parley.Errorf(parley.CodeInvalid, "target \"all\" is not accepted").WithField("target").WithHint("name the entities or the area")
		}
		e, ok := t.index.Entity(id)
		if !ok {
			return c, t.index.errUnknown(id)
		}
		if !t.index.actsOn(c.domain, e) {
			return c, parley.Errorf(parley.CodeInvalid, "%s does not act on %s", in.Service, e.ID).WithField("target").WithHint("use a service of %s, or an entity of %s", domainOf(e.ID), c.domain)
		}
		c.add(e)
	}
	for _, d := range in.Target.Devices {
		if !t.index.hasDevice(d) {
			return c, parley.Errorf(parley.CodeNotFound, "there is no device with the id %q", clip(d, 80)).WithField("target").WithHint("name entities instead; %s finds them", IndexSearch)
		}
	}
	for _, a := range in.Target.Areas {
		if !t.index.hasArea(a) {
			return c, parley.Errorf(parley.CodeNotFound, "there is no area with the id %q", clip(a, 80)).WithField("target").WithHint("the ids are %s", t.index.areaIDs())
		}
	}
	for _, e := range t.index.Entities() {
		inside := slices.Contains(in.Target.Devices, e.DeviceID) && e.DeviceID != "" || slices.Contains(in.Target.Areas, e.AreaID) && e.AreaID != ""
		if inside && domainOf(e.ID) == c.domain && e.Category == "" && !e.Hidden && e.State != "" {
			c.add(e)
		}
	}
	for _, e := range c.entities {
		t.index.reach(&c, e.ID)
	}
	if len(c.reached) > maxTargets {
		return c, parley.Errorf(parley.CodeTooLarge, "the call would reach %d entities; at most %d are allowed", len(c.reached), maxTargets).WithField("target")
	}
	return c, nil
}

func (c *checked) add(e Entity) {
	if !slices.ContainsFunc(c.entities, func(o Entity) bool { return o.ID == e.ID }) {
		c.entities = append(c.entities, e)
	}
}

// service reports whether a service is known. If not, hint lists those that are. An index that
// never learned of services accepts all.
func (x *Index) service(domain, name string) (hint string, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.services) == 0 {
		return "", true
	}
	of := x.services[domain]
	if _, ok := of[name]; ok {
		return "", true
	}
	if len(of) > 0 {
		return "the services of " + domain + " are " + clip(strings.Join(slices.Sorted(maps.Keys(of)), ", "), 600), false
	}
	return "the domains with services are " + clip(strings.Join(slices.Sorted(maps.Keys(x.services)), ", "), 600), false
}

// actsOn reports whether the services of a domain may act on an entity: on entities of the
// domain and on groups. A domain without entities of its own rules nothing out. Home Assistant
// would silently skip the other entities.
func (x *Index) actsOn(domain string, e Entity) bool {
	own := domainOf(e.ID)
	if own == domain || domain == "homeassistant" || own == "group" {
		return true
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id := range x.states {
		if domainOf(id) == domain {
			return false
		}
	}
	return true
}

func (x *Index) hasDevice(id string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.devices[id] != nil
}

func (x *Index) hasArea(id string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.areas[id] != nil
}

func (x *Index) areaIDs() string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return strings.Join(slices.Sorted(maps.Keys(x.areas)), ", ")
}

// call makes the call, once. Every error before the command is written is seam.NotSent.
func (t *Toolset) call(ctx context.Context, r seam.Run, in callInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, seam.NotSent(err)
	}
	c, err := t.check(in)
	if err != nil {
		return answer{}, seam.NotSent(err)
	}
	s, err := t.client.socket(ctx)
	if err != nil {
		return answer{}, seam.NotSent(err)
	}
	args := map[string]any{"domain": c.domain, "service": c.name}
	if len(in.Data) > 0 {
		args["service_data"] = in.Data
	}
	if tg := in.Target.wire(); len(tg) > 0 {
		args["target"] = tg
	}
	if in.Returns {
		args["return_response"] = true
	}
	t.recent.began(r.Call)
	raw, err := s.call(ctx, "call_service", args, nil)
	if err != nil {
		return answer{}, err
	}
	t.recent.ended(r.Call)
	var done struct {
		Context struct {
			ID string `json:"id"`
		} `json:"context"`
		Response json.RawMessage `json:"response"`
	}
	_ = json.Unmarshal(raw, &done) // the call was made, whatever the answer looks like
	out := callAnswer{Service: c.in.Service, Context: done.Context.ID, Entities: t.effects(ctx, c, done.Context.ID)}
	if string(done.Response) != "null" {
		out.Response = done.Response
	}
	return answer{out.text(), out, out.about()}, nil
}

func (tg target) wire() map[string]any {
	out := map[string]any{}
	for k, v := range map[string]strings1{"entity_id": tg.Entities, "device_id": tg.Devices, "area_id": tg.Areas} {
		if len(v) > 0 {
			out[k] = []string(v)
		}
	}
	return out
}

// effects reads the states of the entities after the call. Some devices report after their
// service has returned, so it waits for them for up to Options.Settle.
func (t *Toolset) effects(ctx context.Context, c checked, call string) []effect {
	wait, cancel := context.WithTimeout(ctx, t.o.Settle)
	defer cancel()
	for _, e := range c.entities {
		t.index.await(wait, e.ID, func(s *wireState) bool {
			if ok, known := c.asked(s); known {
				return ok
			}
			return s.Context.ID == call
		})
	}
	out := make([]effect, 0, len(c.entities))
	for _, was := range c.entities {
		f := effect{ID: was.ID, Name: was.Name, Before: was.State}
		s := t.index.state(was.ID)
		var live wireState
		if len(c.entities) <= maxLive && t.client.get(ctx, "states/"+was.ID, nil, &live) == nil {
			s = &live
		}
		if s != nil {
			f.ByThis = call != "" && s.Context.ID == call
			t.became(&f, c, s)
		}
		out = append(out, f)
	}
	return out
}

// became records the state of an entity after the call.
func (t *Toolset) became(f *effect, c checked, s *wireState) {
	f.After, f.Changed = s.State, t.index.local(s.Changed)
	f.Detail = told(attributes(s.Attributes.raw), c.in.Data)
	if ok, known := c.asked(s); known {
		f.AsAsked = &ok
	}
}

// told returns the attributes that a call of a service is usually about.
func told(a map[string]any, data map[string]any) any {
	out := map[string]any{}
	for _, k := range []string{"brightness", "color_temp_kelvin", "temperature", "current_position", "percentage", "volume_level", "preset_mode", "hvac_action", "humidity"} {
		if v, ok := a[k]; ok && v != nil {
			out[k] = v
		}
	}
	for k := range data {
		if v, ok := a[k]; ok {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (o callAnswer) about() (ids []string) {
	for _, e := range o.Entities {
		ids = append(ids, e.ID)
	}
	return ids
}

func (o callAnswer) text() string {
	var b strings.Builder
	if o.found {
		fmt.Fprintf(&b, "The answer to %s was lost, but the states show that the call took effect.\n", o.Service)
	} else {
		fmt.Fprintf(&b, "Home Assistant has carried out %s.\n", o.Service)
	}
	for _, e := range o.Entities {
		fmt.Fprintf(&b, "- %s (%s): ", e.ID, e.Name)
		if !o.found {
			b.WriteString(or(e.Before, "no state") + " → ")
		}
		b.WriteString(or(e.After, "no state"))
		if e.Detail != nil {
			raw, _ := json.Marshal(e.Detail)
			b.WriteString(" " + clip(string(raw), 300))
		}
		if e.Changed != "" {
			b.WriteString(", since " + e.Changed)
		}
		switch {
		case e.AsAsked != nil && !*e.AsAsked:
			b.WriteString(". It does NOT show the state that was asked for")
			if unknown(e.After) {
				b.WriteString(": the device cannot be reached")
			}
		case !o.found && e.AsAsked != nil && e.Before == e.After && !e.ByThis:
			b.WriteString(". It was so before")
		}
		b.WriteString("\n")
	}
	if len(o.Response) > 0 {
		b.WriteString("Response: " + string(o.Response) + "\n")
	}
	return b.String()
}

// state returns the state held by the index, or nil if it has none. Nobody may change it.
func (x *Index) state(id string) *wireState {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.states[id]
}

// await waits until a state is as wanted or ctx ends.
func (x *Index) await(ctx context.Context, id string, wanted func(*wireState) bool) bool {
	for {
		x.mu.RLock()
		s, fresh := x.states[id], x.fresh
		x.mu.RUnlock()
		if s != nil && wanted(s) {
			return true
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return false
		}
	}
}
