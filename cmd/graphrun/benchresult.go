package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// benchResult is the outcome of graphrun bench. Rates are medians over the
// runs; _mean and _sd are mean and standard deviation.
type benchResult struct {
	Engine  string `json:"engine"`
	Model   string `json:"model"`
	Arch    string `json:"arch"`
	Type    string `json:"type"`
	Params  int    `json:"params"`
	CPU     string `json:"cpu"`
	Level   string `json:"instructions"`
	OS      string `json:"os"`
	Backend string `json:"backend"`
	Threads int    `json:"threads"`
	Prompt  int    `json:"prompt"`
	Gen     int    `json:"gen"`
	Depth   int    `json:"depth"`
	Chunk   int    `json:"chunk"`
	Reps    int    `json:"reps"`
	// Parallel is the number of texts generated at once.
	Parallel int    `json:"parallel"`
	Time     string `json:"time"`

	Prefill     float64   `json:"prefill_tok_s"`
	PrefillMean float64   `json:"prefill_mean"`
	PrefillSD   float64   `json:"prefill_sd"`
	Decode      float64   `json:"decode_tok_s"`
	DecodeMean  float64   `json:"decode_mean"`
	DecodeSD    float64   `json:"decode_sd"`
	PrefillAll  []float64 `json:"prefill_samples,omitempty"`
	DecodeAll   []float64 `json:"decode_samples,omitempty"`

	// Tokens of all texts generated at once, per second, and how many times the
	// rate of one alone that is: medians over the runs. 0 for one text.
	Together     float64   `json:"parallel_tok_s"`
	TogetherMean float64   `json:"parallel_mean"`
	TogetherSD   float64   `json:"parallel_sd"`
	TogetherAll  []float64 `json:"parallel_samples,omitempty"`
	Gain         float64   `json:"parallel_gain"`

	// Processor time of all threads per token, in ms. Unlike rates it hardly
	// changes when other programs take the processors.
	PrefillCPU  float64 `json:"prefill_cpu_ms"`
	DecodeCPU   float64 `json:"decode_cpu_ms"`
	TogetherCPU float64 `json:"parallel_cpu_ms"`

	LoadMS      float64 `json:"load_ms"`       // first opening in this process
	LoadWarmMS  float64 `json:"load_warm_ms"`  // second opening
	FirstStepMS float64 `json:"first_step_ms"` // the first step after it
	PeakRSSMB   float64 `json:"peak_rss_mb"`
	// LargePagesPct is the share of the model's files that is mapped in large
	// pages (Linux), which are read faster; 0 for small models and embedded ones.
	LargePagesPct float64 `json:"large_pages_pct"`

	WeightBytes   int     `json:"weight_bytes"`
	BytesPerToken int     `json:"bytes_per_token"` // weights that generating one token reads
	MACsPerToken  int     `json:"macs_per_token"`
	ReadGBS       float64 `json:"read_gb_s"`
	// RoofPct is the share of the read bandwidth that reading the weights for
	// each generated token takes.
	RoofPct  float64 `json:"roof_pct"`
	PeakGMAC float64 `json:"peak_gmac_s"`
	// PrefillRoofPct is the share of the peak of 8-bit multiply-adds that the
	// products of the prompt take; 0 where it is not the roof.
	PrefillRoofPct float64 `json:"prefill_roof_pct"`
	AllocsPerToken float64 `json:"allocs_per_token"`

	prefill, decode, prefillCPU, decodeCPU, parallel, parallelCPU []float64
}

// sum computes what follows from the samples. reads were measured between the
// tokens of each run and peaks after it; both are compared with that run.
func (r *benchResult) sum(reads, peaks []float64, promptMACs float64) {
	r.Prefill, r.PrefillMean, r.PrefillSD = stats(r.prefill)
	r.Decode, r.DecodeMean, r.DecodeSD = stats(r.decode)
	r.PrefillCPU, r.DecodeCPU = median(r.prefillCPU), median(r.decodeCPU)
	r.PrefillAll, r.DecodeAll = rounded(r.prefill), rounded(r.decode)
	r.Together, r.TogetherMean, r.TogetherSD = stats(r.parallel)
	r.TogetherAll, r.TogetherCPU = rounded(r.parallel), median(r.parallelCPU)
	var gains []float64
	for i, x := range r.parallel {
		gains = append(gains, x/r.decode[i])
	}
	r.Gain, _, _ = stats(gains)
	r.ReadGBS, _, _ = stats(reads)
	r.PeakGMAC, _, _ = stats(peaks)
	var decode, prefill []float64
	for i := range reads {
		if len(r.decode) > 0 && reads[i] > 0 {
			decode = append(decode, 100*r.decode[i]*float64(r.BytesPerToken)/1e9/reads[i])
		}
		if len(r.prefill) > 0 && peaks[i] > 0 {
			prefill = append(prefill, 100*r.prefill[i]/float64(r.Prompt)*promptMACs/1e9/peaks[i])
		}
	}
	r.RoofPct, _, _ = stats(decode)
	r.PrefillRoofPct, _, _ = stats(prefill)
	r.AllocsPerToken = round(r.AllocsPerToken, 3)
	r.PeakRSSMB, r.LargePagesPct = round(r.PeakRSSMB, 1), round(r.LargePagesPct, 1)
}

// stats returns median, mean and standard deviation, 0 without samples.
func stats(samples []float64) (median, mean, sd float64) {
	if len(samples) == 0 {
		return 0, 0, 0
	}
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	median = (s[(n-1)/2] + s[n/2]) / 2
	for _, x := range s {
		mean += x / float64(n)
	}
	for _, x := range s {
		sd += (x - mean) * (x - mean)
	}
	if n > 1 {
		sd = math.Sqrt(sd / float64(n-1))
	}
	return round(median, 2), round(mean, 2), round(sd, 2)
}

// median returns the median to a thousandth.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return 0
	}
	return round((s[(len(s)-1)/2]+s[len(s)/2])/2, 3)
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}

func rounded(list []float64) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = round(x, 2)
	}
	return out
}

func (r *benchResult) write(w io.Writer, format string) error {
	switch format {
	case "json":
		return json.NewEncoder(w).Encode(r)
	case "csv":
		return r.writeCSV(w)
	}
	return r.writeTable(w)
}

// writeCSV writes the scalar fields of the JSON object under the same names.
func (r *benchResult) writeCSV(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	var names, values []string
	for name, v := range fields {
		if _, list := v.([]any); !list {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text := fmt.Sprint(fields[name])
		if x, ok := fields[name].(float64); ok {
			text = strconv.FormatFloat(x, 'f', -1, 64)
		}
		values = append(values, text)
	}
	out := csv.NewWriter(w)
	out.Write(names) //nolint:errcheck // Flush keeps the error
	out.Write(values)
	out.Flush()
	return out.Error()
}

// writeTable writes a Markdown table with a row for each test.
func (r *benchResult) writeTable(w io.Writer) error {
	rows := [][]string{{"model", "size", "params", "threads", "test", "tok/s", "median", "of the roof"}}
	at := ""
	if r.Depth > 0 {
		at = fmt.Sprintf(" @ d%d", r.Depth)
	}
	row := func(test string, mean, sd, median float64, roof string) {
		rows = append(rows, []string{
			r.Model + " " + r.Type, fmt.Sprintf("%.2f MiB", float64(r.WeightBytes)/(1<<20)), fmt.Sprintf("%.2f M", float64(r.Params)/1e6),
			strconv.Itoa(r.Threads), test + at, fmt.Sprintf("%.2f ± %.2f", mean, sd), fmt.Sprintf("%.2f", median), roof,
		})
	}
	if r.Prompt > 0 {
		roof := "-"
		if r.PrefillRoofPct > 0 {
			roof = fmt.Sprintf("%.1f %% of %.0f GMAC/s", r.PrefillRoofPct, r.PeakGMAC)
		}
		row("pp"+strconv.Itoa(r.Prompt), r.PrefillMean, r.PrefillSD, r.Prefill, roof)
	}
	if r.Gen > 0 {
		row("tg"+strconv.Itoa(r.Gen), r.DecodeMean, r.DecodeSD, r.Decode, fmt.Sprintf("%.1f %% of %.1f GB/s", r.RoofPct, r.ReadGBS))
	}
	if r.Parallel > 1 {
		row(fmt.Sprintf("tg%d x%d", r.Gen, r.Parallel), r.TogetherMean, r.TogetherSD, r.Together, fmt.Sprintf("%.2f times one", r.Gain))
	}
	writeMarkdown(w, rows)
	pages := ""
	if r.LargePagesPct > 0 {
		pages = fmt.Sprintf("; %.0f %% of the file in large pages", r.LargePagesPct)
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %s; opened in %.1f ms, again in %.1f ms; first step %.1f ms; peak %.0f MB%s; %.2g allocations per token\n",
		r.CPU, r.Level, r.OS, r.LoadMS, r.LoadWarmMS, r.FirstStepMS, r.PeakRSSMB, pages, r.AllocsPerToken)
	return err
}

// writeMarkdown writes a table; the first row is its head.
func writeMarkdown(w io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for i, cells := range rows {
		if i == 1 {
			line := "|"
			for _, n := range width {
				line += " " + fmt.Sprintf("%s |", dashes(n))
			}
			fmt.Fprintln(w, line)
		}
		line := "|"
		for j, c := range cells {
			line += fmt.Sprintf(" %-*s |", width[j], c)
		}
		fmt.Fprintln(w, line)
	}
}

func dashes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '-'
	}
	return string(b)
}
