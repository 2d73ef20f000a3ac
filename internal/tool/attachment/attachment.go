// Package attachment is the toolset with which a model reads on in the files that users attach to messages.
//
// A message has the beginning of a file's text. ReadAttachment reads any part of it, from the artifact that
// was made when the file was given to the session; it reads no other artifact.
package attachment

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tool is the name of the tool.
const Tool = "ReadAttachment"

const (
	defaultLimit = 500
	maxOutput    = 64 << 10 // bytes of a result
	maxLine      = 4 << 10  // bytes of a line that are shown
)

//go:embed read.md
var about string

//go:embed read.json
var input string

// Toolset holds the tool.
type Toolset struct{}

// New makes a toolset.
func New() Toolset { return Toolset{} }

// Tools implements seam.Toolset.
func (Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: Tool, Description: strings.TrimSpace(about), InputSchema: json.RawMessage(input), Effect: parley.EffectRead, Subject: "{attachment}", Cost: "free", OutputLimit: maxOutput + 1<<10,
	}}, nil
}

func refused(format string, args ...any) (parley.ToolResult, error) {
	text := fmt.Sprintf(format, args...)
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: text}}, nil
}

// Run implements seam.Toolset.
func (Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	in := struct {
		Attachment parley.ArtifactID `json:"attachment"`
		Offset     int               `json:"offset"`
		Limit      int               `json:"limit"`
		Pattern    string            `json:"pattern"`
	}{Offset: 1, Limit: defaultLimit}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused("the input cannot be read: %v", err)
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil {
		return refused("pattern is not a regular expression: %v", err)
	}
	if r.Attached == nil {
		return refused("there are no attachments here")
	}
	text, err := r.Attached(ctx, in.Attachment)
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return refused("%s", e.Message)
	}
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var out strings.Builder
	shown, next := 0, 0
	for i, line := range lines {
		if i+1 < in.Offset || in.Pattern != "" && !pattern.MatchString(line) {
			continue
		}
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + " [the line is cut]"
		}
		if shown == in.Limit || out.Len()+len(line) > maxOutput-100 {
			next = i + 1
			break
		}
		fmt.Fprintf(&out, "%d\t%s\n", i+1, line)
		shown++
	}
	switch {
	case shown == 0 && next == 0:
		return parley.ToolResult{Output: fmt.Sprintf("There is no such line. The text has %d lines.", len(lines))}, nil
	case next > 0:
		fmt.Fprintf(&out, "[the text has %d lines; go on with offset %d]", len(lines), next)
	default:
		fmt.Fprintf(&out, "[the end; the text has %d lines]", len(lines))
	}
	return parley.ToolResult{Output: out.String()}, nil
}
