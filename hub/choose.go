package hub

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// preferredQuant is taken where a repository has several GGUF files and the
// name says nothing.
const preferredQuant = "Q4_K_M"

// shardOf is the name of one of several files of a model.
var shardOf = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})(\.gguf|\.safetensors)$`)
})

// group is a model in the GGUF files of a repository: one file, or its shards.
type group struct {
	name  string // of the file, without the number of the shard
	files []File
	want  int // number of shards, 1 for a file alone
}

// complete reports whether all shards are there.
func (g group) complete() bool { return len(g.files) == g.want }

// groups returns the models among GGUF files, in order of their names.
// Projectors of images and importance matrices are GGUF files too, but no
// models.
func groups(files []File) []group {
	byName := map[string]*group{}
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Name))
		if !strings.HasSuffix(base, ".gguf") || strings.HasPrefix(base, "mmproj") || strings.HasPrefix(base, "imatrix") ||
			strings.Contains(base, ".imatrix.") || strings.HasSuffix(base, "-imatrix.gguf") {
			continue
		}
		name, want := f.Name, 1
		if m := shardOf().FindStringSubmatch(f.Name); m != nil {
			name = m[1] + m[4]
			fmt.Sscanf(m[3], "%d", &want)
		}
		g := byName[name]
		if g == nil {
			g = &group{name: name, want: want}
			byName[name] = g
		}
		g.files = append(g.files, f)
	}
	list := make([]group, 0, len(byName))
	for _, g := range byName {
		slices.SortFunc(g.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return list
}

// hasQuant reports whether the name of a file, or of its folder, has the
// quantization as a word: Q4_K is none in model-Q4_K_M.gguf.
func hasQuant(name, quant string) bool {
	name, quant = strings.ToLower(name), strings.ToLower(quant)
	letter := func(i int) bool {
		return i >= 0 && i < len(name) && (name[i] >= 'a' && name[i] <= 'z' || name[i] >= '0' && name[i] <= '9')
	}
	for at := 0; ; {
		i := strings.Index(name[at:], quant)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(quant)
		if !letter(i-1) && !letter(end) && (end >= len(name) || name[end] != '_') {
			return true
		}
		at = i + 1
	}
}

// ofQuant returns the models of a quantization. Where a plain one and variants
// such as UD-Q4_K_M are there, it is the plain one.
func ofQuant(list []group, quant string) []group {
	var found, plain []group
	for _, g := range list {
		if !hasQuant(g.name, quant) {
			continue
		}
		found = append(found, g)
		if !hasQuant(g.name, "UD-"+quant) {
			plain = append(plain, g)
		}
	}
	if len(plain) > 0 {
		return plain
	}
	return found
}

// choice is what a name means in a repository or in the cache.
type choice struct {
	files []File
	model string // the file to open, "" for the folder
	note  string // why this one, if the name did not say
}

// choose applies the rule of Pull to the files that are there.
func choose(n Name, files []File) (choice, error) {
	if len(n.Files) > 0 {
		return byPattern(n, files)
	}
	list := groups(files)
	switch {
	case n.Quant != "":
		if len(list) == 0 {
			return choice{}, fmt.Errorf("hub: %s holds no GGUF file, so there is nothing of type %s; leave out :%s to have the weights as they are", n.Repo, n.Quant, n.Quant)
		}
		found := ofQuant(list, n.Quant)
		if len(found) == 1 {
			return ofGroup(found[0])
		}
		if len(found) == 0 {
			return choice{}, fmt.Errorf("hub: %s holds no GGUF file of type %s; it has: %s", n.Repo, n.Quant, names(list))
		}
		return choice{}, fmt.Errorf("hub: %s holds %d models of type %s, name one: %s", n.Repo, len(found), n.Quant, names(found))
	case len(list) == 1:
		return ofGroup(list[0])
	case len(list) > 1:
		if found := ofQuant(list, preferredQuant); len(found) == 1 {
			ch, err := ofGroup(found[0])
			ch.note = fmt.Sprintf("%s holds %d models; taking %s. Others: hf.co/%s:QUANT", n.Repo, len(list), found[0].name, n.Repo)
			return ch, err
		}
		return choice{}, fmt.Errorf("hub: %s holds %d models, name one with :QUANT: %s", n.Repo, len(list), names(list))
	}
	return folder(n, files)
}

// names lists models for a message.
func names(list []group) string {
	const shown = 24
	var s []string
	for i, g := range list {
		if i == shown {
			s = append(s, fmt.Sprintf("… (%d more)", len(list)-shown))
			break
		}
		s = append(s, oneLine(g.name))
	}
	return strings.Join(s, ", ")
}

func ofGroup(g group) (choice, error) {
	if !g.complete() {
		return choice{}, fmt.Errorf("hub: of %s only %d of %d shards are there", oneLine(g.name), len(g.files), g.want)
	}
	return choice{files: g.files, model: g.files[0].Name}, nil
}

// byPattern returns the files that are named, or match patterns of path.Match.
func byPattern(n Name, files []File) (choice, error) {
	var ch choice
	for _, p := range n.Files {
		found := false
		for _, f := range files {
			ok := f.Name == p
			if !ok {
				var err error
				if ok, err = path.Match(p, f.Name); err != nil {
					return ch, fmt.Errorf("hub: pattern %q: %w", p, err)
				}
			}
			found = found || ok
			if ok && !slices.ContainsFunc(ch.files, func(g File) bool { return g.Name == f.Name }) {
				ch.files = append(ch.files, f)
			}
		}
		if !found {
			return ch, fmt.Errorf("hub: %s holds no file %q", n.Repo, p)
		}
	}
	switch list := groups(ch.files); {
	case len(list) == 1 && len(list[0].files) == len(ch.files):
		// A shard brings the others with it.
		for _, g := range groups(files) {
			if g.name == list[0].name {
				return ofGroup(g)
			}
		}
	case len(ch.files) == 1 && strings.HasSuffix(ch.files[0].Name, ".safetensors"):
		ch.model = ch.files[0].Name
	}
	return ch, nil
}

// Files that a folder needs beside its weights: configuration and tokenizer.
var besideWeights = []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
	"special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json"}

// Weights as transformers names them. Other .safetensors files beside them are
// the same weights under other names.
var mainWeights = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^model(-[0-9]{5}-of-[0-9]{5})?\.safetensors$`)
})

const safeIndex = "model.safetensors.index.json"

// folder returns the files of a model as transformers stores it.
func folder(n Name, files []File) (choice, error) {
	var ch choice
	weights, config, shards, want := 0, false, 0, 0
	var others, alone []string
	for _, f := range files {
		switch {
		case slices.Contains(besideWeights, f.Name):
			ch.files = append(ch.files, f)
			config = config || f.Name == "config.json"
		case n.Tokenizer:
		case f.Name == safeIndex:
			ch.files = append(ch.files, f)
		case mainWeights().MatchString(f.Name):
			ch.files = append(ch.files, f)
			weights++
			if m := shardOf().FindStringSubmatch(f.Name); m != nil {
				shards++
				fmt.Sscanf(m[3], "%d", &want)
			}
		case strings.HasSuffix(f.Name, ".safetensors"):
			alone = append(alone, f.Name)
		case strings.HasSuffix(f.Name, ".bin") || strings.HasSuffix(f.Name, ".pth") || strings.HasSuffix(f.Name, ".pt"):
			others = append(others, f.Name)
		}
	}
	switch {
	case n.Tokenizer && len(ch.files) > 0:
		return ch, nil
	case n.Tokenizer:
		return ch, fmt.Errorf("hub: %s holds no tokenizer: neither a GGUF file nor tokenizer.json", n.Repo)
	case weights == 0 && len(alone) > 0:
		return ch, fmt.Errorf("hub: %s holds no model.safetensors; name the files that are wanted, it has: %s", n.Repo, strings.Join(alone[:min(len(alone), 8)], ", "))
	case weights == 0 && len(others) > 0:
		return ch, fmt.Errorf("hub: %s holds weights of PyTorch alone (%s), want GGUF or safetensors", n.Repo, others[0])
	case weights == 0:
		return ch, fmt.Errorf("hub: %s holds no weights: neither GGUF nor safetensors", n.Repo)
	case !config:
		return ch, fmt.Errorf("hub: %s holds weights but no config.json; name the files that are wanted", n.Repo)
	case shards > 0 && shards < want:
		return ch, fmt.Errorf("hub: of %s only %d of %d shards are there", n.Repo, shards, want)
	}
	return ch, nil
}
