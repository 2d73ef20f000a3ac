// Package picture makes images fit for models: of a type that all providers accept, and no larger
// than they look at.
//
// An image comes from a stranger. Its size in pixels is read from its first bytes, and an image
// whose decoding would need more than about maxDecoded bytes of memory is rejected. At most maxAtOnce
// are decoded at a time; further calls wait. [Fit] decodes every image once, so what it returns can be
// decoded.
//
// The same image gives the same bytes.
package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"github.com/parley-server/parley"
)

// The limits of an image that [Fit] returns. Providers make larger ones smaller before a model sees
// them, so more would cost only time and tokens:
// https://platform.claude.com/docs/en/build-with-claude/vision
const (
	MaxEdge  = 1568      // pixels
	MaxArea  = 1_200_000 // pixels
	MaxBytes = 3 << 19   // 1.5 MiB: of several images, a request must hold all
)

const (
	maxDecoded = 128 << 20 // bytes of memory for one image
	maxAtOnce  = 2
	maxSide    = 1 << 16 // pixels; more is no picture
	quality    = 85      // of a JPEG
)

var decoding = make(chan struct{}, maxAtOnce)

// Picture is an image that fits.
type Picture struct {
	Body          []byte
	MediaType     string // image/png, image/jpeg or image/webp
	Width, Height int
	// From are the width and height of the image that it was made from, if it is another one than that.
	From struct{ Width, Height int }
}

// Changed reports whether the picture is not the image that Fit was given.
func (p Picture) Changed() bool { return p.From.Width > 0 }

// Type is the type of an image that Fit can read, by its first bytes; otherwise "".
func Type(body []byte) string {
	switch head := body[:min(len(body), 16)]; {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) > 14 && string(head[:4]) == "RIFF" && string(head[8:14]) == "WEBPVP":
		return "image/webp"
	case bytes.HasPrefix(head, []byte("BM")):
		return "image/bmp"
	}
	return ""
}

var decoders = map[string]struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}{
	"image/png":  {png.DecodeConfig, png.Decode},
	"image/jpeg": {jpeg.DecodeConfig, jpeg.Decode},
	"image/gif":  {gif.DecodeConfig, gif.Decode}, // the first picture of an animation
	"image/webp": {webp.DecodeConfig, webp.Decode},
	"image/bmp":  {bmp.DecodeConfig, bmp.Decode},
}

// Fit returns an image that fits: the image itself if it does, otherwise one made from it. Its
// errors have the codes invalid and too_large, or are ctx's.
func Fit(ctx context.Context, body []byte) (Picture, error) {
	kind := Type(body)
	d, ok := decoders[kind]
	if !ok {
		return Picture{}, parley.Errorf(parley.CodeInvalid, "the image is of a type that cannot be shown").WithHint("PNG, JPEG, WebP, GIF and BMP can be shown")
	}
	c, err := d.config(bytes.NewReader(body))
	if err != nil {
		return Picture{}, damaged(err)
	}
	switch {
	case c.Width <= 0 || c.Height <= 0:
		return Picture{}, damaged(fmt.Errorf("it is %d x %d pixels", c.Width, c.Height))
	case c.Width > maxSide || c.Height > maxSide || memory(c, kind, body) > maxDecoded:
		return Picture{}, parley.Errorf(parley.CodeTooLarge, "the image has %d x %d pixels, which are too many to be shown", c.Width, c.Height).WithHint("make a smaller version of it")
	}
	select {
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	case <-ctx.Done():
		return Picture{}, context.Cause(ctx)
	}
	img, err := d.decode(bytes.NewReader(body))
	if err != nil {
		return Picture{}, damaged(err)
	}
	turned := 1
	if kind == "image/jpeg" {
		turned = orientation(body)
	}
	width, height := fitting(c.Width, c.Height)
	kept := kind != "image/gif" && kind != "image/bmp" // not all providers accept these
	if kept && width == c.Width && height == c.Height && len(body) <= MaxBytes {
		if turned > 4 {
			width, height = height, width
		}
		return Picture{Body: body, MediaType: kind, Width: width, Height: height}, nil
	}
	return made(img, kind, width, height, turned)
}

func damaged(err error) error {
	return parley.Errorf(parley.CodeInvalid, "the image is damaged: %w", err)
}

// memory is about how many bytes it takes to decode an image.
func memory(c image.Config, kind string, body []byte) int64 {
	each := int64(4)
	switch c.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		each = 8
	case color.Gray16Model, color.Alpha16Model:
		each = 2
	case color.GrayModel, color.AlphaModel:
		each = 1
	case color.YCbCrModel:
		each = 3
	default:
		if _, ok := c.ColorModel.(color.Palette); ok {
			each = 1
		}
	}
	if kind == "image/jpeg" {
		each += coefficients(body)
	}
	return int64(c.Width) * int64(c.Height) * each
}

// fitting returns the largest size of the same shape within the limits.
func fitting(width, height int) (w, h int) {
	scale := min(1, MaxEdge/float64(max(width, height)), math.Sqrt(MaxArea/(float64(width)*float64(height))))
	if scale == 1 {
		return width, height
	}
	return max(1, int(float64(width)*scale)), max(1, int(float64(height)*scale))
}

// made makes a picture of a size.
func made(img image.Image, kind string, width, height, turned int) (Picture, error) {
	b := img.Bounds()
	p := Picture{Width: width, Height: height}
	p.From.Width, p.From.Height = b.Dx(), b.Dy()
	to := turn(scaled(img, width, height), turned)
	if turned > 4 {
		p.Width, p.Height = height, width
		p.From.Width, p.From.Height = p.From.Height, p.From.Width
	}
	var out bytes.Buffer
	if kind != "image/jpeg" {
		if err := png.Encode(&out, to); err != nil {
			return Picture{}, damaged(err)
		}
		p.MediaType = "image/png"
	}
	if out.Len() == 0 || out.Len() > MaxBytes {
		// A JPEG has no transparent places: they are white, as on most pages.
		solid := image.NewRGBA(to.Bounds())
		draw.Draw(solid, solid.Bounds(), image.White, image.Point{}, draw.Src)
		draw.Draw(solid, solid.Bounds(), to, image.Point{}, draw.Over)
		p.MediaType = "image/jpeg"
		for q := quality; ; q -= 20 {
			out.Reset()
			if err := jpeg.Encode(&out, solid, &jpeg.Options{Quality: q}); err != nil {
				return Picture{}, damaged(err)
			}
			if out.Len() <= MaxBytes || q <= 20 {
				break
			}
		}
	}
	if out.Len() > MaxBytes {
		return Picture{}, parley.Errorf(parley.CodeTooLarge, "the image cannot be made small enough to be shown")
	}
	p.Body = out.Bytes()
	return p, nil
}

// strip is how many rows or columns are scaled at a time.
const strip = 64

// scaled returns an image in another size. The scaler averages what becomes one pixel, and needs 32
// bytes of memory for each pixel of an image as wide as the result and as high as the original: often
// more than the image itself. So the width comes first and then the height, each in strips; but for
// rounding it is the same.
func scaled(img image.Image, width, height int) *image.RGBA {
	b := img.Bounds()
	narrow := image.NewRGBA(image.Rect(0, 0, width, b.Dy()))
	// For a strip of another size, which is the last, it makes a scaler of that size.
	rows := draw.BiLinear.NewScaler(width, strip, b.Dx(), strip)
	for y := 0; y < b.Dy(); y += strip {
		end := min(y+strip, b.Dy())
		rows.Scale(narrow, image.Rect(0, y, width, end), img, image.Rect(b.Min.X, b.Min.Y+y, b.Max.X, b.Min.Y+end), draw.Src, nil)
	}
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	columns := draw.BiLinear.NewScaler(strip, height, strip, b.Dy())
	for x := 0; x < width; x += strip {
		end := min(x+strip, width)
		columns.Scale(to, image.Rect(x, 0, end, height), narrow, image.Rect(x, 0, end, b.Dy()), draw.Src, nil)
	}
	return to
}
