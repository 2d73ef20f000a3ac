package telemetry

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/parley-server/parley"
)

// Names from OpenTelemetry's conventions for generative AI, version 1.41. They are in
// development and change, so all of them are in this file and no other file has one.
// https://github.com/open-telemetry/semantic-conventions/blob/v1.41.0/docs/gen-ai/gen-ai-agent-spans.md
const (
	schemaURL = "https://opentelemetry.io/schemas/1.41.0"

	opChat    = "chat"
	opTool    = "execute_tool"
	opAgent   = "invoke_agent"
	typeError = "error.type"

	keyOperation    = "gen_ai.operation.name"
	keyProvider     = "gen_ai.provider.name"
	keyConversation = "gen_ai.conversation.id"
	keyAgent        = "gen_ai.agent.name"
	keyModel        = "gen_ai.request.model"
	keyStream       = "gen_ai.request.stream"
	keyReplyModel   = "gen_ai.response.model"
	keyFinish       = "gen_ai.response.finish_reasons"
	keyFirstChunk   = "gen_ai.response.time_to_first_chunk"
	keyInput        = "gen_ai.usage.input_tokens"
	keyOutput       = "gen_ai.usage.output_tokens"
	keyCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	keyCacheWrite   = "gen_ai.usage.cache_creation.input_tokens"
	keyReasoning    = "gen_ai.usage.reasoning.output_tokens"
	keyTool         = "gen_ai.tool.name"
	keyToolCall     = "gen_ai.tool.call.id"
	keyToolType     = "gen_ai.tool.type"

	// Content, which is off unless it is asked for.
	keyMessagesIn  = "gen_ai.input.messages"
	keyMessagesOut = "gen_ai.output.messages"
	keyArguments   = "gen_ai.tool.call.arguments"
	keyResult      = "gen_ai.tool.call.result"

	// latestCacheWrite is the newer name of keyCacheWrite, from the conventions' own
	// repository; used only on request (optIn).
	latestCacheWrite = "gen_ai.usage.cache_write.input_tokens"
	optIn            = "gen_ai_latest_experimental"

	// Not of these conventions: the general ones, and what Langfuse reads beside
	// them. https://langfuse.com/integrations/native/opentelemetry
	keySession       = "session.id"
	keyUser          = "user.id"
	keyCost          = "gen_ai.usage.cost"
	keyLangfuseUsage = "langfuse.observation.usage_details"
)

// providers are the conventions' names of providers that we name differently.
var providers = map[string]string{
	"mistral": "mistral_ai", "gemini": "gcp.gemini", "google": "gcp.gemini", "vertex": "gcp.vertex_ai",
	"bedrock": "aws.bedrock", "azure": "azure.ai.openai", "xai": "x_ai",
}

// providerOf splits a model's name, as apps say it, into provider and model.
func providerOf(model string) (provider, name string) {
	provider, name, ok := strings.Cut(model, "/")
	if !ok {
		return "", model
	}
	if known, ok := providers[provider]; ok {
		provider = known
	}
	return provider, name
}

// finishReason is a stop reason in the conventions' words, where they have one.
func finishReason(stop string) string {
	switch stop {
	case "end_turn", "":
		return "stop"
	case "max_tokens":
		return "length"
	case "tool_use":
		return "tool_call"
	case "refusal":
		return "content_filter"
	}
	return stop
}

// usage returns the attributes of a model call's usage. The conventions count cached
// tokens as input; our numbers do not. A call without a reply gets no usage: it only has
// what was reserved for it, which would look like money spent.
func (d *deriver) usage(u parley.Usage) []*commonpb.KeyValue {
	if u.Estimated {
		return []*commonpb.KeyValue{num("parley.usage.reserved_tokens", u.Tokens())}
	}
	out := []*commonpb.KeyValue{
		num(keyInput, u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens),
		num(keyOutput, u.OutputTokens),
	}
	if u.CacheReadTokens > 0 || u.CacheWriteTokens > 0 {
		write := keyCacheWrite
		if d.latest {
			write = latestCacheWrite
		}
		out = append(out, num(keyCacheRead, u.CacheReadTokens), num(write, u.CacheWriteTokens),
			// Langfuse prices input tokens and cached tokens separately.
			text(keyLangfuseUsage, encode(map[string]int64{
				"input": u.InputTokens, "output": u.OutputTokens,
				"cache_read_input_tokens": u.CacheReadTokens, "cache_creation_input_tokens": u.CacheWriteTokens,
			})))
	}
	if u.ReasoningTokens > 0 {
		out = append(out, num(keyReasoning, u.ReasoningTokens))
	}
	if u.USD > 0 {
		out = append(out, float(keyCost, u.USD))
	}
	return out
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

func texts(key string, values ...string) *commonpb.KeyValue {
	var list []*commonpb.AnyValue
	for _, v := range values {
		list = append(list, text("", v).Value)
	}
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: list}}}}
}

func num(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}

func float(key string, value float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: value}}}
}

func truth(key string, value bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}}
}
