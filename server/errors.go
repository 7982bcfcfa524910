package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"graphrun/chat"
	"graphrun/engine"
	"graphrun/grammar"
	"graphrun/server/sched"
)

// Error is what the server answers when it cannot do what was asked, in the shape
// of OpenAI's errors.
type Error struct {
	Status  int    // of HTTP
	Code    string // a word that programs can act on
	Param   string // the field of the request that is at fault, as a path; "" if none is
	Message string
	// RetryAfter is the number of seconds after which it is worth asking again; 0
	// says nothing.
	RetryAfter int
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Type returns the kind of error, by its status.
func (e *Error) Type() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status == http.StatusForbidden:
		return "permission_error"
	case e.Status == http.StatusNotFound:
		return "not_found_error"
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// MarshalJSON writes {"error": {message, type, param, code}}.
func (e *Error) MarshalJSON() ([]byte, error) {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	b := body{Message: strings.ToValidUTF8(e.Message, "\ufffd"), Type: e.Type(), Code: e.Code}
	if e.Param != "" {
		b.Param = &e.Param
	}
	return json.Marshal(struct {
		Error body `json:"error"`
	}{b})
}

// badRequest is an error in a field of the request.
func badRequest(param, code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}

// statusClosed is what logs and metrics show for a client that left.
const statusClosed = 499

// asError makes an answer of any error.
func asError(err error) *Error {
	var (
		own    *Error
		long   *engine.ContextError
		pages  *engine.PagesError
		queue  *sched.QueueFullError
		schema *grammar.SchemaError
		tmpl   *chat.TemplateError
	)
	bad := func(status int, code, param string) *Error {
		return &Error{Status: status, Code: code, Param: param, Message: err.Error()}
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &long):
		return &Error{Status: http.StatusBadRequest, Code: "context_length_exceeded",
			Message: fmt.Sprintf("the prompt has %d tokens, the context of this server %d, of which the answer needs at least one; shorten the prompt or start the server with a larger --ctx", long.Want, long.Have)}
	case errors.As(err, &queue):
		e := bad(http.StatusTooManyRequests, "queue_full", "")
		e.RetryAfter = 1
		return e
	case errors.Is(err, sched.ErrDraining):
		return draining()
	case errors.Is(err, sched.ErrClosed):
		return bad(http.StatusServiceUnavailable, "closed", "")
	case errors.As(err, &pages):
		e := bad(http.StatusServiceUnavailable, "kv_cache_full", "")
		e.RetryAfter = 1
		return e
	case errors.As(err, &schema):
		return bad(http.StatusBadRequest, "unsupported_schema", "")
	case errors.Is(err, chat.ErrImage):
		return bad(http.StatusBadRequest, "unsupported_content", "messages")
	case errors.As(err, &tmpl):
		return bad(http.StatusBadRequest, "template_error", "messages")
	case errors.Is(err, grammar.ErrAmbiguous):
		return bad(http.StatusBadRequest, "ambiguous_grammar", "")
	case errors.Is(err, engine.ErrNoToken), errors.Is(err, engine.ErrConstraint):
		return bad(http.StatusBadRequest, "no_token_allowed", "")
	case errors.Is(err, engine.ErrNoHidden):
		return bad(http.StatusBadRequest, "unsupported_model", "model")
	case errors.Is(err, engine.ErrEmpty):
		return bad(http.StatusBadRequest, "empty_prompt", "")
	case errors.Is(err, context.DeadlineExceeded):
		return bad(http.StatusServiceUnavailable, "deadline", "")
	case errors.Is(err, context.Canceled):
		return bad(statusClosed, "client_closed", "")
	}
	return bad(http.StatusInternalServerError, "internal_error", "")
}

func draining() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "draining", RetryAfter: 1, Message: "the server is shutting down: it finishes the answers that are running and takes no new ones"}
}

// cutShort is why answers end that took longer than --drain.
func cutShort() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "draining", Message: "the server has shut down before the answer ended (--drain); what was sent of it is not whole"}
}

// why is err, unless the server itself has ended the request: a client that is
// still there must not take what it has for the whole answer.
func why(ctx context.Context, err error) error {
	var cut *Error
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &cut) {
		return cut
	}
	return err
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, e *Error) {
	if e.Status == statusClosed {
		// Nobody reads it; the status still has to be a valid one.
		e = &Error{Status: http.StatusServiceUnavailable, Code: e.Code, Message: e.Message}
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	writeJSON(w, e.Status, e)
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be written as JSON","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// marshal is json.Marshal without escaping for HTML.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}

// quote prints what was found in a request, cut short.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most]
		for len(s) > 0 {
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
				break
			}
			s = s[:len(s)-1]
		}
		return s + "…"
	}
	return s
}
