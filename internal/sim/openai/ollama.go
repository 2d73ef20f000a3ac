package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// native answers Ollama's own API, as far as it concerns models: which exist, which are loaded,
// and their context windows.
func (s *Server) native(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	var q struct {
		Model  string `json:"model"`
		Stream *bool  `json:"stream"`
	}
	if r.Method == http.MethodPost && json.Unmarshal(body, &q) != nil {
		writeJSON(w, 400, obj{"error": "invalid character"})
		return
	}
	if q.Model != "" && !s.has(q.Model) {
		writeJSON(w, 404, obj{"error": "model '" + q.Model + "' not found"})
		return
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	details := obj{"parent_model": "", "format": "gguf", "family": "qwen3", "families": []string{"qwen3"}, "parameter_size": "8.2B", "quantization_level": "Q4_K_M"}
	switch r.Method + " " + path {
	case "GET /api/version":
		writeJSON(w, 200, obj{"version": "0.13.5"})
	case "GET /api/tags":
		list := []obj{}
		for _, id := range s.opt.Models {
			list = append(list, obj{"name": tagged(id), "model": tagged(id), "modified_at": now, "size": 5_225_388_164, "digest": "500a1f067a9f", "details": details})
		}
		writeJSON(w, 200, obj{"models": list})
	case "GET /api/ps":
		s.mu.Lock()
		id := s.loaded
		s.mu.Unlock()
		list := []obj{}
		if id != "" {
			m := obj{"name": tagged(id), "model": tagged(id), "size": 6_000_000_000, "digest": "500a1f067a9f", "details": details, "expires_at": now, "size_vram": 0}
			if !s.opt.Silent {
				m["context_length"] = s.opt.Context
			}
			list = append(list, m)
		}
		writeJSON(w, 200, obj{"models": list})
	case "POST /api/show":
		writeJSON(w, 200, obj{
			"parameters": s.parameters(), "template": "{{ .Prompt }}", "details": details, "modified_at": now, "capabilities": []string{"completion", "tools"},
			"model_info": obj{"general.architecture": "qwen3", "qwen3.context_length": 40_960},
		})
	case "POST /api/generate": // without a prompt this loads the model
		s.load(q.Model)
		writeJSON(w, 200, obj{"model": q.Model, "created_at": now, "response": "", "done": true, "done_reason": "load"})
	default:
		http.NotFound(w, r)
	}
}

// parameters returns the Modelfile's parameters.
func (s *Server) parameters() string {
	out := "stop                           \"<|im_end|>\"\ntemperature                    0.6"
	if s.opt.Modelfile != "" {
		out += "\n" + s.opt.Modelfile
	}
	return out
}

func (s *Server) load(id string) {
	if s.opt.Dialect != Ollama {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = id
}

// Loaded returns the model that Ollama has in memory.
func (s *Server) Loaded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded
}

func tagged(id string) string {
	if strings.Contains(id, ":") {
		return id
	}
	return id + ":latest"
}
