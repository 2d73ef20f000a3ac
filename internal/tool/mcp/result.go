//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/seam"
)

// result turns what the server answered into what the model reads. Content that is not text
// becomes artifacts.
func (t *Toolset) result(ctx context.Context, r seam.Run, d definition, res *sdk.CallToolResult) parley.ToolResult {
	done := parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK}
	var parts []string
	lost := 0 // files that were not kept; the model is told why of the first one
	for i, c := range res.Content {
		text, isLost := t.content(ctx, r, i, c)
		if isLost {
			lost++
		}
		if lost < 2 || !isLost {
			parts = append(parts, text)
		}
	}
	if lost > 1 {
		parts = append(parts, fmt.Sprintf("%d more files were not kept.", lost-1))
	}
	done.Output = strings.Join(parts, "\n")
	structured, err := json.Marshal(res.StructuredContent)
	if err == nil && res.StructuredContent != nil {
		if done.Output == "" {
			done.Output = string(structured)
		}
		if d.decl.OutputSchema != nil && !res.IsError {
			done.Data = structured
		}
	}
	if res.IsError {
		done.Outcome = parley.OutcomeError
		if done.Output == "" {
			done.Output = "the tool failed and did not say why"
		}
		done.Error = &parley.ErrorInfo{Code: parley.CodeTool, Message: t.o.clean(done.Output, maxShown)}
		return done
	}
	if done.Output == "" {
		done.Output = "Done."
	}
	return done
}

// content returns one part of an answer as text. lost: it is a file that was not kept.
func (t *Toolset) content(ctx context.Context, r seam.Run, n int, c sdk.Content) (text string, lost bool) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return strings.ToValidUTF8(c.Text, "\uFFFD"), false
	case *sdk.ImageContent:
		return kept(ctx, r, fmt.Sprintf("image%d", n+1), c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return kept(ctx, r, fmt.Sprintf("audio%d", n+1), c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		return t.o.clean(fmt.Sprintf("%s: %s %s", c.URI, c.Name, c.Description), maxShown), false
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "(an empty resource)", false
		}
		if c.Resource.Blob != nil {
			return kept(ctx, r, path.Base(t.o.clean(c.Resource.URI, 200)), c.Resource.MIMEType, c.Resource.Blob)
		}
		return t.o.clean(c.Resource.URI, maxShown) + "\n" + strings.ToValidUTF8(c.Resource.Text, "\uFFFD"), false
	}
	return "(content of an unknown kind)", false
}

// kept stores a file as an artifact and returns a sentence about it. An image is shown to the model, if
// need be in a smaller version, which is another artifact.
func kept(ctx context.Context, r seam.Run, name, kind string, body []byte) (says string, lost bool) {
	kind, params, err := mime.ParseMediaType(kind)
	if err != nil {
		kind, params = "application/octet-stream", nil
	}
	if exts, _ := mime.ExtensionsByType(kind); path.Ext(name) == "" && len(exts) > 0 {
		name += exts[0]
	}
	why, err := picture.Keep(ctx, r.Keep, seam.File{Name: name, MediaType: mime.FormatMediaType(kind, params), Body: body})
	if err != nil {
		return fmt.Sprintf("%s, %d bytes of %s, was not kept: %s", name, len(body), kind, err), true
	}
	if why != "" {
		why = " " + why
	}
	return fmt.Sprintf("%s, %d bytes of %s, was kept as an artifact.%s", name, len(body), kind, why), false
}
