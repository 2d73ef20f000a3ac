package loop

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxParts bounds the parts of one reply; each call among them becomes an event.
const maxParts = 256

// replied makes the payload of a reply: calls get their ids here, once and for
// all, and what would not survive JSON is put right, so that the state is the
// same live as after recovery.
func replied(r *seam.Reply, call parley.CallID, m seam.ModelInfo, newCall func() parley.CallID) parley.ModelReplied {
	p := parley.ModelReplied{
		Call: call, Model: r.Model, Parts: make([]parley.Part, 0, len(r.Parts)), Usage: counted(r.Usage, m),
		StopReason: r.StopReason, Warning: strings.ToValidUTF8(r.Warning, "\ufffd"), State: validJSON(r.State), Citations: r.Citations[:min(len(r.Citations), maxParts)],
	}
	if p.Model == "" {
		p.Model = m.Name
	}
	for _, part := range r.Parts[:min(len(r.Parts), maxParts)] {
		part.Text = strings.ToValidUTF8(part.Text, "\ufffd")
		part.Signature = validJSON(part.Signature)
		switch part.Type {
		case parley.PartText:
			if part.Text == "" {
				continue
			}
		case parley.PartToolCall:
			part.Call, part.Input = newCall(), input(part.Input)
		case parley.PartHandoff:
			part.Call = newCall()
		case parley.PartThinking, parley.PartProvider:
		default:
			continue // nothing else can be said by a model
		}
		p.Parts = append(p.Parts, part)
	}
	return p
}

// input returns a call's input as JSON. Invalid JSON becomes a JSON string: the schema rejects
// it with an error that the model can read.
func input(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	if json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return json.RawMessage("{}")
	}
	return quoted
}

func validJSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

// counted is what a reply cost: as the provider says, else by its list.
func counted(u parley.Usage, m seam.ModelInfo) parley.Usage {
	if u.USD <= 0 || math.IsNaN(u.USD) || math.IsInf(u.USD, 0) {
		u.USD = price(m, u)
	}
	return u
}
