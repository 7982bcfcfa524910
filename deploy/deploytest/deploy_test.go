package deploytest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// TestManifests: every field is one that Kubernetes knows, of the right type, and
// what the objects say of each other is true.
func TestManifests(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var (
		deployment appsv1.Deployment
		service    corev1.Service
		secret     corev1.Secret
		claim      corev1.PersistentVolumeClaim
		scaler     autoscalingv2.HorizontalPodAutoscaler
	)
	known := map[string]any{"apps/v1 Deployment": &deployment, "v1 Service": &service, "v1 Secret": &secret, "v1 PersistentVolumeClaim": &claim, "autoscaling/v2 HorizontalPodAutoscaler": &scaler}
	for i, doc := range bytes.Split(data, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("object %d: %v", i, err)
		}
		name := kind.APIVersion + " " + kind.Kind
		into, ok := known[name]
		if !ok {
			t.Fatalf("object %d is a %s, which is not expected or there twice", i, name)
		}
		delete(known, name)
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(known) > 0 {
		t.Fatalf("missing: %v", known)
	}
	pod := deployment.Spec.Template
	c := pod.Spec.Containers[0]
	for k, v := range deployment.Spec.Selector.MatchLabels {
		if pod.Labels[k] != v {
			t.Errorf("the selector wants %s=%s, the pods have %q", k, v, pod.Labels[k])
		}
	}
	for k, v := range service.Spec.Selector {
		if pod.Labels[k] != v {
			t.Errorf("the service wants %s=%s, the pods have %q", k, v, pod.Labels[k])
		}
	}
	port := c.Ports[0].Name
	if service.Spec.Ports[0].TargetPort != intstr.FromString(port) {
		t.Errorf("the service sends to %s, the port is %s", service.Spec.Ports[0].TargetPort.String(), port)
	}
	for name, p := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{"startup": {c.StartupProbe, "/health"}, "readiness": {c.ReadinessProbe, "/health"}, "liveness": {c.LivenessProbe, "/health/live"}} {
		if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Port != intstr.FromString(port) {
			t.Errorf("%s probe: %+v, want %s", name, p.probe, p.path)
		}
	}
	if s := pod.Spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		t.Errorf("the pod may run as root: %+v", s)
	}
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container: %+v", s)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		switch {
		case v.Secret != nil && v.Secret.SecretName != secret.Name:
			t.Errorf("volume %s has the secret %s, there is %s", v.Name, v.Secret.SecretName, secret.Name)
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != claim.Name:
			t.Errorf("volume %s has the claim %s, there is %s", v.Name, v.PersistentVolumeClaim.ClaimName, claim.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	if r := scaler.Spec.ScaleTargetRef; r.Kind != "Deployment" || r.Name != deployment.Name || r.APIVersion != "apps/v1" {
		t.Errorf("the scaler is for %+v", r)
	}
	if m := scaler.Spec.Metrics[0]; m.Type != autoscalingv2.PodsMetricSourceType || m.Pods.Metric.Name != "graphrun_requests_queued" || m.Pods.Target.AverageValue.Value() <= 0 {
		t.Errorf("the scaler looks at %+v", m)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("resources %+v", c.Resources)
	}
}
