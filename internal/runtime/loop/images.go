package loop

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// The images that a model sees are those of messages and those that the turn's tools returned, such
// as an image file that was read. A prompt names them; their bytes are read when the request is made.
// Which of them a prompt has follows from the state and the model alone, so a resumed turn and a
// replay show the same ones. A model that cannot see reads in words that there is an image.

const (
	// maxShown limits the images of a request. Anthropic's limits for each of them get lower above it.
	maxShown = 20
	// maxShownBytes leaves room for the rest of the smallest request that a provider accepts, Gemini's
	// of 20 MB with the images in base64.
	maxShownBytes = 12 << 20
	// unknownSize is assumed of an image of an older log.
	unknownSize = 1 << 20
)

// resultImages are the images of a call's result.
func resultImages(find lookup, call parley.CallID) (parts []parley.Part) {
	c := find(call)
	if c == nil {
		return nil
	}
	if c = last(find, c); c.Status != parley.ToolIsEnded {
		return nil
	}
	for _, ref := range c.Images {
		parts = append(parts, parley.Part{Type: parley.PartImage, Call: call, Artifact: ref.ID, MediaType: ref.MediaType, Name: ref.Name, Size: ref.Size})
	}
	return parts
}

// shown returns the messages with the images that the model sees, and words in place of the others.
// When there are too many, the oldest are left out, down to half of the limit: so a prompt does not
// change at its beginning with each new image, which would make a provider's cache useless. If own
// is true, the turn's message keeps its images for a model that takes none, which then refuses them.
func shown(ms []parley.Message, m seam.ModelInfo, own bool) []parley.Message {
	most := mostShown(m)
	var sizes []int64
	each(ms, func(p parley.Part) { sizes = append(sizes, max(p.Size, 0)) })
	from, count, size := 0, 0, int64(0)
	for i, n := range sizes {
		if n == 0 {
			n, sizes[i] = unknownSize, unknownSize
		}
		count++
		size += n
		if count <= most && size <= maxShownBytes {
			continue
		}
		for ; from < i && (count > max(most/2, 1) || size > maxShownBytes/2); from++ {
			count--
			size -= sizes[from]
		}
	}
	at := -1
	return inWords(ms, func(p parley.Part) string {
		at++
		switch {
		case !m.Images && own && p.Call == "":
			return ""
		case !m.Images:
			return "which you cannot see"
		case at < from:
			return "which is not shown any more, because there are newer ones"
		}
		return ""
	})
}

// mostShown limits the images of a request to a model.
func mostShown(m seam.ModelInfo) int {
	if m.MaxImages > 0 {
		return min(maxShown, m.MaxImages)
	}
	return maxShown
}

// shownTokens estimates the messages of a turn, of whose images shown leaves some. It depends on the
// images before the turn how many that are, so as many are assumed as there can be.
func shownTokens(ms []parley.Message, m seam.ModelInfo, own bool) int64 {
	out := shown(ms, m, own)
	all, left := 0, 0
	each(ms, func(parley.Part) { all++ })
	each(out, func(parley.Part) { left++ })
	n := messageTokens(out)
	if m.Images {
		n += int64(min(all, mostShown(m))-left) * mediaTokens
	}
	return n
}

func each(ms []parley.Message, f func(parley.Part)) {
	for _, m := range ms {
		for _, p := range m.Parts {
			if p.Type == parley.PartImage {
				f(p)
			}
		}
	}
}

// inWords puts words in place of the images for which why says something. Those for an image of a
// result are in the result's text. It changes nothing of ms.
func inWords(ms []parley.Message, why func(parley.Part) string) []parley.Message {
	out := slices.Clone(ms)
	for i, m := range ms {
		if !slices.ContainsFunc(m.Parts, func(p parley.Part) bool { return p.Type == parley.PartImage }) {
			continue
		}
		parts := make([]parley.Part, 0, len(m.Parts))
		for _, p := range m.Parts {
			said := ""
			if p.Type == parley.PartImage {
				said = why(p)
			}
			switch {
			case said == "":
				parts = append(parts, p)
			case p.Call == "":
				parts = append(parts, parley.Part{Type: parley.PartText, Text: "[attached: " + imageName(p) + ", " + said + "]"})
			default:
				if at := slices.IndexFunc(parts, func(r parley.Part) bool { return r.Type == parley.PartToolResult && r.Call == p.Call }); at >= 0 {
					parts[at].Text += "\n[the image " + imageName(p) + ", " + said + "]"
				}
			}
		}
		out[i].Parts = parts
	}
	return out
}

func imageName(p parley.Part) string {
	if p.Name == "" {
		return "an image"
	}
	return parley.Cut(p.Name, 100)
}

// load opens the images of a request. For one that is not there any more, such as that of a session
// that was imported without it, the request gets words. Open of the request gives each loaded image
// once, so that it is not held while the model answers.
func load(ctx context.Context, h seam.Host, req *seam.Request) {
	var mu sync.Mutex
	loaded, gone := map[parley.ArtifactID]seam.File{}, map[parley.ArtifactID]bool{}
	each(req.Messages, func(p parley.Part) {
		if _, ok := loaded[p.Artifact]; ok || gone[p.Artifact] {
			return
		}
		f, err := h.Open(ctx, p.Artifact)
		switch {
		case err == nil:
			loaded[p.Artifact] = f
		case parley.CodeOf(err) == parley.CodeNotFound:
			gone[p.Artifact] = true
		}
	})
	if len(gone) > 0 {
		req.Messages = inWords(req.Messages, func(p parley.Part) string {
			if gone[p.Artifact] {
				return "which is not there any more"
			}
			return ""
		})
	}
	req.Open = func(ctx context.Context, id parley.ArtifactID) (seam.File, error) {
		mu.Lock()
		f, ok := loaded[id]
		delete(loaded, id)
		mu.Unlock()
		if ok {
			return f, nil
		}
		return h.Open(ctx, id)
	}
}
