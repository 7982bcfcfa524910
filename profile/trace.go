package profile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// WriteTrace writes the events that were kept (see Collector.Events) in the
// trace event format, which chrome://tracing and ui.perfetto.dev show: a lane
// for each worker with its operations and its waits at barriers, and one for the
// steps.
func (c *Collector) WriteTrace(w io.Writer) error {
	t := &tracer{Writer: bufio.NewWriterSize(w, 1<<16)}
	t.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
	t.meta("process_name", -1, c.Model)
	t.meta("thread_name", 0, "steps")
	for w := range c.Threads {
		t.meta("thread_name", w+1, fmt.Sprintf("worker %d", w))
	}
	for _, p := range c.phases {
		for n := range p.events {
			t.step(p, n)
		}
	}
	t.WriteString("\n]}\n")
	return t.Flush()
}

type tracer struct {
	*bufio.Writer
	comma bool
}

func (t *tracer) event(format string, args ...any) {
	if t.comma {
		t.WriteByte(',')
	}
	t.comma = true
	fmt.Fprintf(t, "\n"+format, args...)
}

func (t *tracer) meta(kind string, tid int, name string) {
	at := ""
	if tid >= 0 {
		at = fmt.Sprintf(`"tid":%d,`, tid)
	}
	t.event(`{"ph":"M","pid":1,%s"name":%q,"args":{"name":%s}}`, at, kind, quote(name))
}

// span writes an event of some length; times are in microseconds.
func (t *tracer) span(lane int, name, kind string, begin, end int64, args string) {
	if args != "" {
		args = `,"args":{` + args + `}`
	}
	t.event(`{"ph":"X","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"name":%s,"cat":%q%s}`, lane, float64(begin)/1e3, float64(end-begin)/1e3, quote(name), kind, args)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a form
	return string(b)
}

func (t *tracer) step(p *phase, n int) {
	r := &p.events[n]
	t.span(0, fmt.Sprintf("%s %d", p.name, n), "step", r.begin, r.end, "")
	for w := range r.lanes {
		t.lane(r, w)
	}
}

// lane writes what one worker did in a step.
func (t *tracer) lane(r *record, w int) {
	last, waiting := r.start, "waking"
	for _, x := range r.lanes[w] {
		if x.Begin > last {
			t.span(w+1, waiting, "wait", last, x.Begin, "")
		}
		last, waiting = x.End, "barrier"
		in := &r.instrs[x.Instr]
		args := fmt.Sprintf(`"value":%q,"kernel":%s`, in.Value, quote(in.Kernel))
		if in.Value.Layer >= 0 {
			args += fmt.Sprintf(`,"layer":%d`, in.Value.Layer)
		}
		name := in.Value.Op.Name
		if in.Value.Name != "" {
			name += " " + in.Value.Name
		}
		t.span(w+1, name, "op", x.Begin, x.End, args)
	}
	if r.end > last {
		t.span(w+1, "barrier", "wait", last, r.end, "")
	}
}
