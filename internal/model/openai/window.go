package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// A local server's context window is set by its operator. Ollama drops the beginning of a longer
// prompt and answers as if it had read everything.

// A window is a server's answer about a model; tokens is 0 if it does not say.
type window struct {
	tokens int64
	at     time.Time
	failed bool // the server could not be asked
}

// windowFor is how long an answer is used: a server may be restarted with other settings, and
// Ollama may reload a model.
const windowFor = time.Minute

// toSay is how long a server may take to answer: it only looks the value up.
const toSay = 5 * time.Second

// defaultWindow is Ollama's default window in all versions that do not report it.
const defaultWindow = 4096

// enlarge says, for each dialect, how the operator sets the window.
var enlarge = map[Dialect]string{
	Ollama:   "Ollama would cut off the beginning: set OLLAMA_CONTEXT_LENGTH=32768 where Ollama runs, or num_ctx in the model's Modelfile, and start it again",
	VLLM:     "start vLLM with a larger --max-model-len",
	LlamaCpp: "start llama-server with a larger --ctx-size, which its slots share",
}

// Info returns what is known of the model, including the window of its server once it was asked.
// A smaller window from the settings takes precedence.
func (m *model) Info() seam.ModelInfo {
	i := m.info
	m.c.mu.Lock()
	w := m.c.windows[m.id]
	m.c.mu.Unlock()
	if w.tokens > 0 && (i.Guessed || w.tokens < i.ContextTokens) {
		i.ContextTokens, i.Guessed = w.tokens, false
		i.ContextHint = enlarge[m.c.opt.Dialect]
	}
	return i
}

// Measure asks a local server how many tokens it accepts, so that Info reports it. If that is
// decided only when the model is loaded, and the model is not loaded, Info does not change.
func (m *model) Measure(ctx context.Context) error { return m.measure(ctx, false) }

func (m *model) measure(ctx context.Context, load bool) error {
	c := m.c
	if enlarge[c.opt.Dialect] == "" {
		return nil
	}
	c.mu.Lock()
	w := c.windows[m.id]
	c.mu.Unlock()
	if now := c.opt.Now(); now.Sub(w.at) < windowFor && (w.tokens > 0 || w.failed || !load) {
		return nil
	}
	n, err := m.ask(ctx, load)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		n = w.tokens // its previous answer is the best we have
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.windows[m.id]; there || len(c.windows) < maxLearned {
		c.windows[m.id] = window{max(n, 0), c.opt.Now(), err != nil}
	}
	return err
}

func (m *model) ask(ctx context.Context, load bool) (int64, error) {
	c := m.c
	root := strings.TrimSuffix(c.base, "/v1")
	brief, cancel := context.WithTimeout(ctx, toSay)
	defer cancel()
	switch c.opt.Dialect {
	case VLLM:
		all, err := c.list(brief)
		for _, l := range all {
			if l.ID == m.id {
				return l.MaxLen, err
			}
		}
		return 0, err
	case LlamaCpp:
		var props struct {
			Settings struct {
				Context int64 `json:"n_ctx"` // window of one slot
			} `json:"default_generation_settings"`
		}
		err := c.get(brief, root+"/props", "its properties", &props)
		return props.Settings.Context, err
	}
	n, loaded, err := m.loaded(brief, root)
	if err != nil || n > 0 {
		return n, err
	}
	if n, err = m.shown(brief, root); err != nil || n > 0 {
		return n, err
	}
	if !loaded && load {
		// Without a prompt this loads the model, as the following call would do.
		if err := c.post(ctx, root+"/api/generate", map[string]any{"model": m.id, "stream": false}, "an answer that the model is loaded", new(json.RawMessage)); err != nil {
			return 0, err
		}
		again, cancel := context.WithTimeout(ctx, toSay) // the first context may be used up: loading takes minutes
		defer cancel()
		if n, loaded, err = m.loaded(again, root); err != nil || n > 0 {
			return n, err
		}
	}
	if loaded {
		n = defaultWindow
	}
	return n, nil
}

// loaded returns the window of a model that Ollama has in memory.
func (m *model) loaded(ctx context.Context, root string) (n int64, loaded bool, err error) {
	var ps struct {
		Models []struct {
			Name    string `json:"name"`
			Context int64  `json:"context_length"`
		} `json:"models"`
	}
	err = m.c.get(ctx, root+"/api/ps", "a list of what is loaded", &ps)
	for _, l := range ps.Models {
		if l.Name == m.id || l.Name == m.id+":latest" {
			return l.Context, true, err
		}
	}
	return 0, false, err
}

// shown returns the num_ctx of a model's Modelfile, limited to the length the model was trained
// for.
func (m *model) shown(ctx context.Context, root string) (int64, error) {
	var show struct {
		Parameters string                     `json:"parameters"`
		Info       map[string]json.RawMessage `json:"model_info"`
	}
	if err := m.c.post(ctx, root+"/api/show", map[string]any{"model": m.id}, "what it knows of the model", &show); err != nil {
		return 0, err
	}
	var n int64
	for lines := bufio.NewScanner(strings.NewReader(show.Parameters)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "num_ctx" {
			n, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	for key, raw := range show.Info {
		var trained int64
		if strings.HasSuffix(key, ".context_length") && json.Unmarshal(raw, &trained) == nil && trained > 0 && n > trained {
			n = trained
		}
	}
	return n, nil
}

func (c *Client) post(ctx context.Context, url string, body any, what string, into any) error {
	raw, err := encode(body)
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "a request cannot be written: %w", err)
	}
	resp, err := c.tr.Post(ctx, c.opt.HTTP, url, c.header("application/json"), raw)
	if err != nil {
		return err
	}
	return c.answer(ctx, resp, what, into)
}

// fits measures the server before a call. A request made for a larger window than there is is
// not sent: the error makes the caller build it again for the actual window. If only the reply
// would be too long, its limit is lowered. If the server cannot be asked, the previous
// assumption stays.
func (m *model) fits(ctx context.Context, r *seam.Request) error {
	before := m.Info().ContextTokens
	if err := m.measure(ctx, true); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.c.opt.Logger.Debug("a model server did not say how many tokens it takes", "model", m.info.Name, "err", err)
		return nil
	}
	now := m.Info().ContextTokens
	if before <= now {
		return nil
	}
	if room := now - int64(size(r)/3); room >= leastReply {
		r.MaxTokens = min(r.MaxTokens, room)
		return nil
	}
	return parley.Errorf(parley.CodeUnavailable, "%s accepts %d tokens for %s, but the request was made for %d", m.c.tr.Name, now, m.id, before).
		WithHint("%s", enlarge[m.c.opt.Dialect]).WithRetry(time.Millisecond)
}

// leastReply is the smallest reply that is worth a call, in tokens.
const leastReply = 256

// size returns the bytes of text in a request.
func size(r *seam.Request) int {
	n := len(r.System)
	for _, msg := range r.Messages {
		for _, p := range msg.Parts {
			n += len(p.Text) + len(p.Input)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Description) + len(t.InputSchema)
	}
	return n
}

// sparse is more bytes per token than any long request has on average; four is usual.
const sparse = 12

// doubt returns a warning about a reply for which the server counted far fewer tokens than it
// was sent.
func (m *model) doubt(size int, u parley.Usage) string {
	counted := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	if u.Estimated || counted <= 0 || size < sparse*1000 || int64(size) < sparse*counted {
		return ""
	}
	says := m.c.tr.Name + " counted " + strconv.FormatInt(counted, 10) + " tokens in a request of " + strconv.Itoa(size>>10) +
		" KiB: it may have cut off the beginning, and the answer may lack what was said there"
	m.c.opt.Logger.Warn("a model server counted far fewer tokens than it was sent", "model", m.info.Name, "tokens", counted, "bytes", size, "hint", enlarge[m.c.opt.Dialect])
	return says
}
