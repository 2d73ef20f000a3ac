package homeassistant

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// targetKeys are the fields by which Home Assistant finds what a service acts on. It accepts
// them in a call's target and equally in its data.
var targetKeys = []string{"entity_id", "device_id", "area_id", "floor_id", "label_id"}

// maxDeep is how deeply data may be nested.
const maxDeep = 16

// inData collects the entities named in a call's data, such as players to group with, and
// rejects data that would reach beyond the target.
func (x *Index) inData(c *checked, v any, at string, deep int) error {
	if deep > maxDeep {
		return parley.Errorf(parley.CodeInvalid, "%s is nested too deeply", clip(at, 80)).WithField("data")
	}
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			key := strings.ToLower(strings.TrimSpace(k))
			if slices.Contains(targetKeys, key) && (deep == 0 || key != "entity_id" || !x.areEntities(inner)) {
				return parley.Errorf(parley.CodeInvalid, "%s belongs into target, not into %s", key, clip(at, 80)).WithField("target").
					WithHint("name the entities in target.entity_id, or an area in target.area_id")
			}
			x.named(c, k) // as in the description of a scene
			if err := x.inData(c, inner, at+"."+k, deep+1); err != nil {
				return err
			}
		}
	case []any:
		for i, inner := range v {
			if err := x.inData(c, inner, fmt.Sprintf("%s[%d]", at, i), deep+1); err != nil {
				return err
			}
		}
	case string:
		for one := range strings.SplitSeq(v, ",") {
			x.named(c, one)
		}
	}
	return nil
}

// named adds the entity whose id a text is.
func (x *Index) named(c *checked, text string) {
	if e, ok := x.Entity(strings.ToLower(strings.TrimSpace(text))); ok {
		x.reach(c, e.ID)
	}
}

// areEntities reports whether v is the id of an entity, or a list of ids.
func (x *Index) areEntities(v any) bool {
	switch v := v.(type) {
	case string:
		_, ok := x.Entity(v)
		return ok
	case []any:
		return len(v) > 0 && !slices.ContainsFunc(v, func(one any) bool {
			_, list := one.([]any)
			return list || !x.areEntities(one)
		})
	}
	return false
}

// reach adds an entity and, for a group or a scene, its members. It stops beyond the limit,
// where the call is rejected.
func (x *Index) reach(c *checked, id string) {
	if slices.Contains(c.reached, id) || len(c.reached) > maxTargets {
		return
	}
	c.reached = append(c.reached, id)
	e, ok := x.Entity(id)
	if !ok {
		return // a member that no longer exists
	}
	var has struct {
		Members json.RawMessage `json:"entity_id"`
		Players json.RawMessage `json:"group_members"`
	}
	_ = json.Unmarshal(e.Attributes, &has) // attributes that are not an object have no members
	for _, raw := range []json.RawMessage{has.Members, has.Players} {
		var members strings1
		_ = json.Unmarshal(raw, &members)
		for _, m := range members {
			x.reach(c, m)
		}
	}
}

// Reaches implements seam.Reacher: the entities that a call would act on, as the house is now
// known. The service that runs a script acts on that script. If a call names no entity, what it
// acts on is unknown, and a yes applies to this one call only.
func (t *Toolset) Reaches(tool string, input json.RawMessage) ([]string, bool) {
	if tool != CallService {
		return nil, false
	}
	var in callInput
	if json.Unmarshal(input, &in) != nil {
		return nil, true
	}
	c, err := t.check(in)
	if err != nil {
		return nil, true
	}
	if len(c.reached) == 0 && c.domain == "script" {
		t.index.named(&c, in.Service)
	}
	slices.Sort(c.reached)
	return c.reached, true
}

// Vet implements seam.Vetter: it rejects services, entities, devices and areas that the house
// does not have. It accepts everything while the house is not known yet.
func (t *Toolset) Vet(tool string, input json.RawMessage) error {
	var in callInput
	if tool != CallService || t.index.empty() || json.Unmarshal(input, &in) != nil {
		return nil
	}
	_, err := t.check(in)
	return err
}

// empty reports whether the index was never filled.
func (x *Index) empty() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.synced.IsZero()
}
