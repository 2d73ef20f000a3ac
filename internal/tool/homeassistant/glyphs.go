package homeassistant

import (
	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
	"gonum.org/v1/plot"
	pfont "gonum.org/v1/plot/font"
)

// The font of the image's text. Its regular and its bold face have the same glyphs.
const typeface, variant = "Liberation", "Sans"

// drawable returns a text as the image can draw it, or the alternative if the font lacks one of
// its glyphs. Text is drawn from left to right, one glyph for each character. So text that needs
// another direction, or marks that combine, is not drawable either.
func drawable(text, alternative string) string {
	text = norm.NFC.String(text)
	var buf sfnt.Buffer
	f := plot.DefaultTextHandler.Cache().Lookup(pfont.Font{Typeface: typeface, Variant: variant}, 0).Face
	for _, r := range text {
		p, _ := bidi.LookupRune(r)
		switch p.Class() {
		case bidi.R, bidi.AL, bidi.NSM:
			return alternative
		}
		if glyph, err := f.GlyphIndex(&buf, r); err != nil || glyph == 0 {
			return alternative
		}
	}
	return text
}
