package anthropic

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-server/parley"
)

const (
	// maxImage is the provider's limit for an image, in base64.
	maxImage = 5 << 20
	// maxRequest is its limit for a whole request.
	maxRequest = 32 << 20
)

var pictures = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// media opens an image or document and makes a block of it.
func (h *history) media(ctx context.Context, p parley.Part) (b *sdk.ContentBlockParamUnion, raw bool, err error) {
	no := func(format string, args ...any) (*sdk.ContentBlockParamUnion, bool, error) {
		return nil, false, parley.Errorf(parley.CodeInvalid, format, args...).WithHint("send it in another form, or choose another model")
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
		return nil, false, err
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
	size := base64.StdEncoding.EncodedLen(len(f.Body))
	if h.files.size += size; h.files.size > maxRequest {
		return nil, false, parley.Errorf(parley.CodeTooLarge, "%q is too large for Anthropic, which accepts requests of up to 32 MB", name).WithHint("send fewer or smaller files")
	}
	switch {
	case slices.Contains(pictures, kind):
		if size > maxImage {
			return nil, false, parley.Errorf(parley.CodeTooLarge, "the image %q is too large for Anthropic, which accepts up to 3.75 MB", name).WithHint("send a smaller version")
		}
		b := sdk.NewImageBlockBase64(kind, h.files.add(f.Body))
		return &b, false, nil
	case p.Type == parley.PartImage:
		return no("Anthropic does not accept images of type %s, only JPEG, PNG, GIF and WebP", kind)
	case kind == "application/pdf":
		return document(name, sdk.DocumentBlockParamSourceUnion{OfBase64: &sdk.Base64PDFSourceParam{Data: h.files.add(f.Body)}}), false, nil
	case strings.HasPrefix(kind, "text/") || kind == "application/json":
		if !utf8.Valid(f.Body) {
			return no("%q is not UTF-8 text", name)
		}
		if strings.TrimSpace(string(f.Body)) == "" {
			return no("%q is empty", name)
		}
		return document(name, sdk.DocumentBlockParamSourceUnion{OfText: &sdk.PlainTextSourceParam{Data: string(f.Body)}}), false, nil
	}
	return no("Anthropic does not accept files of type %s, only PDF and text", kind)
}

// attachments are the files of a request. They are inserted when its JSON is written, because
// the SDK's types would copy a large file several times.
type attachments struct {
	secret string // so that no text can be mistaken for a file
	bodies [][]byte
	size   int // of all files, in base64
}

// add returns a placeholder for the file.
func (a *attachments) add(body []byte) string {
	if a.secret == "" {
		a.secret = rand.Text()
	}
	a.bodies = append(a.bodies, body)
	return a.mark(len(a.bodies) - 1)
}

func (a *attachments) mark(i int) string { return "file-" + a.secret + "-" + strconv.Itoa(i) + "." }

// put appends the JSON to dst and replaces the placeholders by the files.
func (a *attachments) put(dst, raw []byte) []byte {
	size := len(raw)
	for _, b := range a.bodies {
		size += base64.StdEncoding.EncodedLen(len(b))
	}
	dst = slices.Grow(dst, size)
	for i, b := range a.bodies {
		before, after, _ := bytes.Cut(raw, []byte(a.mark(i)))
		dst = base64.StdEncoding.AppendEncode(append(dst, before...), b)
		raw = after
	}
	return append(dst, raw...)
}

func document(name string, src sdk.DocumentBlockParamSourceUnion) *sdk.ContentBlockParamUnion {
	d := sdk.DocumentBlockParam{Source: src}
	if name != "" {
		d.Title = param.NewOpt(name)
	}
	return &sdk.ContentBlockParamUnion{OfDocument: &d}
}
