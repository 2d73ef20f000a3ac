package picture_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/picture"
)

// painted is an image whose left upper quarter is red and whose rest is blue.
func painted(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{0, 0, 255, 255}
			if x < w/2 && y < h/2 {
				c = color.NRGBA{255, 0, 0, 255}
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

// noise is an image that no encoding makes small.
func noise(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32())
	}
	return img
}

func encoded(t testing.TB, kind string, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 100})
	case "gif":
		err = gif.Encode(&b, img, nil)
	case "bmp":
		err = bmp.Encode(&b, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fit(t testing.TB, body []byte) picture.Picture {
	t.Helper()
	p, err := picture.Fit(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	img, kind, err := image.Decode(bytes.NewReader(p.Body))
	if err != nil || "image/"+kind != p.MediaType || img.Bounds().Dx() != p.Width && p.Changed() || img.Bounds().Dy() != p.Height && p.Changed() {
		t.Fatalf("it says %s of %d x %d; it is %s of %v, %v", p.MediaType, p.Width, p.Height, kind, img.Bounds(), err)
	}
	if len(p.Body) > picture.MaxBytes || max(p.Width, p.Height) > picture.MaxEdge || p.Width*p.Height > picture.MaxArea {
		t.Errorf("%d bytes, %d x %d pixels do not fit", len(p.Body), p.Width, p.Height)
	}
	if again, err := picture.Fit(t.Context(), body); err != nil || !bytes.Equal(p.Body, again.Body) {
		t.Errorf("it is another one the second time: %v", err)
	}
	return p
}

func TestFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body    []byte
		kind    string
		w, h    int
		changed bool
	}{
		"a small PNG stays":              {encoded(t, "png", painted(40, 30)), "image/png", 40, 30, false},
		"a small JPEG stays":             {encoded(t, "jpeg", painted(40, 30)), "image/jpeg", 40, 30, false},
		"a GIF becomes a PNG":            {encoded(t, "gif", painted(40, 30)), "image/png", 40, 30, true},
		"a BMP becomes a PNG":            {encoded(t, "bmp", painted(40, 30)), "image/png", 40, 30, true},
		"a long PNG":                     {encoded(t, "png", painted(3136, 20)), "image/png", 1568, 10, true},
		"a line":                         {encoded(t, "png", painted(20_000, 2)), "image/png", 1568, 1, true},
		"a square JPEG":                  {encoded(t, "jpeg", painted(2000, 2000)), "image/jpeg", 1095, 1095, true},
		"a PNG that does not get small":  {encoded(t, "png", noise(1000, 1000)), "image/jpeg", 1000, 1000, true},
		"a JPEG that does not get small": {encoded(t, "jpeg", noise(1200, 1000)), "image/jpeg", 1200, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fit(t, c.body)
			if p.MediaType != c.kind || p.Width != c.w || p.Height != c.h || p.Changed() != c.changed || p.Changed() == bytes.Equal(p.Body, c.body) {
				t.Errorf("got %s of %d x %d, changed %v", p.MediaType, p.Width, p.Height, p.Changed())
			}
		})
	}
}

// withOrientation puts the note of a camera into a JPEG.
func withOrientation(body []byte, how uint16, order binary.AppendByteOrder) []byte {
	exif := []byte("Exif\x00\x00MM\x00*")
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		exif = []byte("Exif\x00\x00II*\x00")
	}
	exif = order.AppendUint32(exif, 8)
	exif = order.AppendUint16(exif, 1)
	exif = order.AppendUint16(exif, 0x0112)
	exif = order.AppendUint16(exif, 3)
	exif = order.AppendUint32(exif, 1)
	exif = order.AppendUint16(exif, how)
	exif = append(exif, 0, 0, 0, 0, 0, 0)
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2))
	return slices.Concat(body[:2], segment, exif, body[2:])
}

// TestTurned: a photo that its camera took on its side is made smaller as people see it.
func TestTurned(t *testing.T) {
	t.Parallel()
	// Where the red quarter is after the turn: right, down.
	at := map[uint16][2]bool{1: {false, false}, 2: {true, false}, 3: {true, true}, 4: {false, true}, 5: {false, false}, 6: {true, false}, 7: {true, true}, 8: {false, true}}
	plain := encoded(t, "jpeg", painted(3000, 1000))
	for how, want := range at {
		for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
			p := fit(t, withOrientation(plain, how, order))
			if wide := p.Width > p.Height; wide != (how < 5) || (p.From.Width > p.From.Height) != wide {
				t.Errorf("orientation %d: %d x %d, from %v", how, p.Width, p.Height, p.From)
			}
			img, _, err := image.Decode(bytes.NewReader(p.Body))
			if err != nil {
				t.Fatal(err)
			}
			x, y := p.Width/4, p.Height/4
			if want[0] {
				x = p.Width * 3 / 4
			}
			if want[1] {
				y = p.Height * 3 / 4
			}
			if r, _, b, _ := img.At(x, y).RGBA(); r < b {
				t.Errorf("orientation %d: the red quarter is not at %d, %d", how, x, y)
			}
		}
	}
	// Notes that make no sense.
	for _, body := range [][]byte{withOrientation(plain, 0, binary.BigEndian), withOrientation(plain, 9, binary.BigEndian)} {
		if p := fit(t, body); p.Width < p.Height {
			t.Errorf("%d x %d", p.Width, p.Height)
		}
	}
}

// bomb is the beginning of a PNG of a size, with no pixels.
func bomb(w, h uint32, depth, kind byte) []byte {
	head := []byte("IHDR")
	head = binary.BigEndian.AppendUint32(head, w)
	head = binary.BigEndian.AppendUint32(head, h)
	head = append(head, depth, kind, 0, 0, 0)
	out := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	return binary.BigEndian.AppendUint32(append(out, head...), crc32.ChecksumIEEE(head))
}

// jpegBomb is the beginning of a JPEG of a size, with no pixels. between stands before its frame.
func jpegBomb(frame byte, w, h uint16, between ...byte) []byte {
	out := append(append([]byte{0xff, 0xd8}, between...), 0xff, frame, 0, 17, 8)
	out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, h), w)
	out = append(out, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0)
	return append(out, 0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0)
}

// disguised is a progressive JPEG that looks like another one to a reader that does not know fill bytes.
func disguised(w, h uint16) []byte {
	body := jpegBomb(0xc2, w, h, 0xff)
	body = append(body, make([]byte, 4+0xc200-len(body))...)
	return append(body, jpegBomb(0xc0, w, h)[2:]...)
}

// TestBadImages measures memory, so no other test runs beside it.
func TestBadImages(t *testing.T) {
	whole := encoded(t, "png", painted(400, 300))
	for name, c := range map[string]struct {
		body []byte
		code parley.Code
	}{
		"nothing":                {nil, parley.CodeInvalid},
		"no image":               {[]byte("<svg/>"), parley.CodeInvalid},
		"cut off":                {whole[:len(whole)/2], parley.CodeInvalid},
		"only a head":            {whole[:8], parley.CodeInvalid},
		"a broken middle":        {slices.Concat(whole[:100], []byte("xxxxxxxx"), whole[108:]), parley.CodeInvalid},
		"no pixels":              {bomb(0, 0, 8, 6), parley.CodeInvalid},
		"a bomb":                 {bomb(60_000, 60_000, 8, 6), parley.CodeTooLarge},
		"a deep bomb":            {bomb(5000, 5000, 16, 6), parley.CodeTooLarge},
		"a bomb in one colour":   {bomb(20_000, 20_000, 1, 0), parley.CodeTooLarge},
		"a line without an end":  {bomb(1<<30, 1, 8, 0), parley.CodeTooLarge},
		"a progressive JPEG":     {jpegBomb(0xc2, 4000, 3000), parley.CodeTooLarge},
		"a disguised JPEG":       {disguised(4000, 3000), parley.CodeTooLarge},
		"a JPEG with rubbish":    {jpegBomb(0xc2, 4000, 3000, 0xff, 0xfe, 0, 2, 0, 0, 0), parley.CodeTooLarge},
		"a JPEG without pixels":  {encoded(t, "jpeg", painted(40, 30))[:200], parley.CodeInvalid},
		"a WebP without content": {[]byte("RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00"), parley.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := picture.Fit(t.Context(), c.body)
			runtime.ReadMemStats(&after)
			if parley.CodeOf(err) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
				t.Errorf("it took %d bytes of memory", took)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := picture.Fit(ctx, whole); err != nil && parley.CodeOf(err) == parley.CodeInvalid {
		t.Errorf("cancelled: %v", err)
	}
}

// TestMemory: to make a photo smaller takes little more than to decode it. No other test runs beside
// it.
func TestMemory(t *testing.T) {
	photo := image.NewGray(image.Rect(0, 0, 4000, 3000))
	body := encoded(t, "jpeg", photo)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := picture.Fit(t.Context(), body)
	runtime.ReadMemStats(&after)
	if err != nil || p.Width != 1264 || p.Height != 948 {
		t.Fatalf("%d x %d, %v", p.Width, p.Height, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 120<<20 { // 136 in one step
		t.Errorf("it took %d MiB of memory", took>>20)
	}
}

func FuzzFit(f *testing.F) {
	for _, kind := range []string{"png", "jpeg", "gif", "bmp"} {
		f.Add(encoded(f, kind, painted(8, 8)))
	}
	f.Add(withOrientation(encoded(f, "jpeg", painted(8, 8)), 6, binary.BigEndian))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := picture.Fit(t.Context(), body)
		if err == nil && (len(p.Body) == 0 || len(p.Body) > picture.MaxBytes || p.Width <= 0 || p.Height <= 0) {
			t.Errorf("%d bytes, %d x %d", len(p.Body), p.Width, p.Height)
		}
	})
}
