package gemini

import (
	"context"
	"encoding/base64"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// maxRequest is the provider's limit for a request with files:
// https://ai.google.dev/gemini-api/docs/file-input-methods
const maxRequest = 20 << 20

var pictures = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// media opens an image or document and makes a part of it.
func (h *history) media(ctx context.Context, p parley.Part) (wirePart, error) {
	no := func(format string, args ...any) (wirePart, error) {
		return wirePart{}, parley.Errorf(parley.CodeInvalid, format, args...).WithHint("send it in another form, or choose another model")
	}
	switch {
	case p.Type == parley.PartImage && !h.info.Images:
		return no("%s does not accept images", h.info.Name)
	case p.Type == parley.PartFile && !h.info.Files:
		return no("%s does not accept files", h.info.Name)
	case h.open == nil:
		return no("the file %s cannot be read here", p.Artifact)
	}
	f, err := h.open(ctx, p.Artifact)
	if err != nil {
		return wirePart{}, err
	}
	kind := f.MediaType
	if kind == "" {
		kind = p.MediaType
	}
	if m, _, err := mime.ParseMediaType(kind); err == nil {
		kind = m
	}
	name := f.Name
	if name == "" {
		name = p.Name
	}
	if base64.StdEncoding.EncodedLen(len(f.Body)) > maxRequest {
		return wirePart{}, parley.Errorf(parley.CodeTooLarge, "%q is too large for Gemini, which accepts requests of up to 20 MB", name).WithHint("send a smaller file")
	}
	switch {
	case len(f.Body) == 0:
		return no("%q is empty", name)
	case slices.Contains(pictures, kind):
	case p.Type == parley.PartImage:
		return no("Gemini does not accept images of type %s, only PNG, JPEG, WebP, HEIC and HEIF", kind)
	case kind == "application/pdf", strings.HasPrefix(kind, "audio/"), strings.HasPrefix(kind, "video/"):
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		if !utf8.Valid(f.Body) {
			return no("%q is not UTF-8 text", name)
		}
		kind = "text/plain" // it accepts only some of the other text types
	default:
		return no("Gemini does not accept files of type %s, only PDF, text, sound and video", kind)
	}
	return wirePart{Inline: &blob{kind, f.Body}}, nil
}
