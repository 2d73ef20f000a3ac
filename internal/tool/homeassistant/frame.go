package homeassistant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// frame is one message from Home Assistant after the login.
type frame struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Success bool            `json:"success"`
	Result  json.RawMessage `json:"result"`
	Event   json.RawMessage `json:"event"`
	Error   *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// maxBatch exceeds the number of messages that Home Assistant queues for a client, so none of
// its frames has more.
const maxBatch = 8192

var errEmpty = errors.New("the frame is empty")

// decode reads a frame: one message, or an array of messages once coalescing is agreed. If any
// message violates the protocol, it returns an error and no messages.
func decode(raw []byte) ([]frame, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errEmpty
	}
	var out []frame
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &out); err != nil {
			return nil, err
		}
		if len(out) > maxBatch {
			return nil, fmt.Errorf("the frame has %d messages, more than %d", len(out), maxBatch)
		}
	} else {
		out = make([]frame, 1)
		if err := json.Unmarshal(raw, &out[0]); err != nil {
			return nil, err
		}
	}
	for i, f := range out {
		switch {
		case f.Type == "":
			return nil, fmt.Errorf("message %d has no type", i)
		case f.ID < 0, f.Type == "event" && f.ID == 0:
			return nil, fmt.Errorf("message %d of type %.40q has the id %d", i, f.Type, f.ID)
		case f.Type == "result" && !f.Success && f.Error == nil:
			return nil, fmt.Errorf("message %d reports a failure without an error", i)
		}
	}
	return out, nil
}
