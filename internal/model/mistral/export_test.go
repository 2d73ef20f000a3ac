package mistral

import (
	"context"
	"io"

	"github.com/parley-server/parley/internal/seam"
)

// ReadChat reads the body of a chat completion's stream.
func (c *Client) ReadChat(ctx context.Context, body io.Reader, r seam.Request, yield func(seam.ModelDelta, error) bool) {
	newAssembly(c, newNames(r), "asked").chat(ctx, body, yield)
}

// Body is the body of a chat completion.
func Body(ctx context.Context, m seam.Model, r seam.Request) ([]byte, error) {
	return m.(*model).body(ctx, r, newNames(r))
}

// PartsOf passes fragments of bytes on as whole characters.
func PartsOf(fragments ...[]byte) (shown []string) {
	var h runes
	for _, f := range fragments {
		shown = append(shown, h.next(f))
	}
	return append(shown, h.rest())
}

// Unquote returns the text of a JSON string without its quotes.
func Unquote(s string) []byte { return unquote(nil, []byte(s)) }

// ReadConversation reads the body of a conversation's stream. It is the answer to h's agent
// helper, whose id is ag_helper.
func (h *Hosted) ReadConversation(ctx context.Context, body io.Reader, r seam.Request, yield func(seam.ModelDelta, error) bool) {
	f := &fleet{ids: map[string]string{"helper": "ag_helper", "expert": "ag_expert"}, names: map[string]string{"ag_helper": "helper", "ag_expert": "expert"}}
	c := &call{h: h, req: r, names: newNames(seam.Request{Tools: r.Tools}), yield: yield, fleet: f}
	a := &conversation{assembly: newAssembly(h.c, c.names, "asked"), call: c, agentID: "ag_helper"}
	if err := a.read(ctx, body); err != nil {
		yield(seam.ModelDelta{}, err)
	}
}
