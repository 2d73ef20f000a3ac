package claudecli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
)

// rpc is a JSON-RPC message of the CLI's MCP client.
type rpc struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Params struct {
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			UseID string `json:"claudecode/toolUseId"`
		} `json:"_meta"`
	} `json:"params"`
}

// mcp answers a message to one of our servers in the CLI.
func (p *process) mcp(ctx context.Context, server string, raw json.RawMessage) (any, error) {
	var m rpc
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	var result any = map[string]any{}
	switch m.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]string{"name": server, "version": "1"},
		}
	case "tools/list":
		result = map[string]any{"tools": p.listed(server)}
	case "tools/call":
		t, err := p.await(ctx, func(t *turn) { t.making.Add(1) })
		if err != nil {
			return nil, err
		}
		if result, err = t.ours(ctx, m.Params.Meta.UseID); err != nil {
			t.withhold(ctx)
			return nil, err
		}
	}
	out := map[string]any{"jsonrpc": "2.0", "result": result}
	if m.ID != nil {
		out["id"] = m.ID
	}
	return map[string]any{"mcp_response": out}, nil
}

// listed describes our tools as MCP does.
func (p *process) listed(server string) []any {
	list := []any{}
	for _, d := range p.spec.ours[server] {
		name := d.Name
		if s, tool, ok := splitMCP(name); ok && s == server {
			name = tool
		}
		list = append(list, map[string]any{
			"name": name, "description": d.Description, "inputSchema": d.InputSchema,
			"annotations": map[string]any{"readOnlyHint": d.Effect == parley.EffectRead},
		})
	}
	return list
}

// ours makes a call of a tool of ours for the CLI. It is one of making.
func (t *turn) ours(ctx context.Context, useID string) (any, error) {
	defer t.making.Done()
	t.flush(ctx)
	u, err := t.use(ctx, useID)
	if err != nil {
		return nil, err
	}
	r, err := t.call(ctx, u.call)
	if err != nil {
		return nil, err
	}
	if err := t.syncMode(ctx, t.h.State()); err != nil { // the call may have changed it
		return nil, err
	}
	said := r.Output
	if now := t.h.State().Turn; now != nil && now.Tool(u.call) != nil {
		c := now.Tool(u.call)
		r.Images = c.Images
		if r.Outcome == parley.OutcomeUnknown {
			said = unknownText(c)
		}
	}
	content := []any{map[string]string{"type": "text", "text": said}}
	for _, image := range r.Images {
		f, err := t.h.Open(ctx, image.ID)
		if err == nil && slices.Contains(imageTypes, f.MediaType) {
			content = append(content, map[string]string{"type": "image", "data": base64.StdEncoding.EncodeToString(f.Body), "mimeType": f.MediaType})
		}
	}
	return map[string]any{"content": content, "isError": r.Outcome != parley.OutcomeOK}, nil
}

// imageTypes are the types of images that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
