{{- define "streamfl.labels" -}}
app.kubernetes.io/name: streamfl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "streamfl.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* The template of a pod: (dict "root" $ "role" "hosts" "arguments" (list ...) "resources" ... "ports" (dict ...)). */ -}}
{{- define "streamfl.pod" -}}
{{- $environment := index .root.Values.secrets.environment .role }}
{{- $files := index .root.Values.secrets.files .role }}
metadata:
  labels:
    {{- include "streamfl.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    checksum/settings: {{ .root.Values.settings | sha256sum }}
    {{- if and (hasKey .ports "telemetry") (not .root.Values.prometheusOperator.enabled) }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "9464"
    {{- end }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "streamfl.labels" .root | nindent 16 }}
                app.kubernetes.io/component: {{ .role }}
  containers:
    - name: streamfl
      image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: {{ toJson .arguments }}
      env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: STREAMFL_KAFKA__BOOTSTRAP_SERVERS, value: {{ .root.Values.kafka.bootstrapServers | quote }}}
        {{- if hasKey .ports "telemetry" }}
        - {name: STREAMFL_TELEMETRY__ADDRESS, value: "0.0.0.0:9464"}
        - {name: STREAMFL_TELEMETRY__HEALTH, value: "0.0.0.0:9465"}
        {{- $service := printf "%s-%s" (include "streamfl.name" .root) .role }}
        {{- $names := list (printf "$(NAME).%s" $service) (printf "$(NAME).%s.%s" $service .root.Release.Namespace) (printf "$(NAME).%s.%s.svc" $service .root.Release.Namespace) }}
        - {name: STREAMFL_TELEMETRY__HOST_NAMES, value: {{ toJson $names | quote }}}
        {{- end }}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $environment }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      ports:
        {{- range $name, $port := .ports }}
        - {name: {{ $name }}, containerPort: {{ $port }}}
        {{- end }}
        {{- if hasKey .ports "telemetry" }}
        - {name: health, containerPort: 9465}
        {{- end }}
      {{- if hasKey .ports "telemetry" }}
      # On a port of their own, which the network policy keeps from everybody else. A start waits for the brokers until [kafka] patience ends the process.
      startupProbe: {httpGet: {path: /live, port: health}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 150}
      livenessProbe: {httpGet: {path: /live, port: health}, periodSeconds: 10, timeoutSeconds: 5}
      readinessProbe: {httpGet: {path: /ready, port: health}, periodSeconds: 5, timeoutSeconds: 5}
      {{- else }}
      readinessProbe: {tcpSocket: {port: page}, periodSeconds: 5}
      {{- end }}
      resources: {{ toJson .resources }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: settings, mountPath: /etc/streamfl/federation.toml, subPath: federation.toml, readOnly: true}
        - {name: scratch, mountPath: /tmp}
        {{- if $files }}
        - {name: keys, mountPath: /etc/streamfl/keys, readOnly: true}
        {{- end }}
        {{- with .root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ include "streamfl.name" .root }}-settings}
    - name: scratch
      emptyDir: {}
    {{- with $files }}
    - name: keys
      secret: {secretName: {{ . }}, defaultMode: 288}
    {{- end }}
    {{- with .root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* A set of pods with stable names, its headless Service and its budget: arguments as of streamfl.pod, and "replicas". */ -}}
{{- define "streamfl.set" -}}
{{- $name := printf "%s-%s" (include "streamfl.name" .root) .role }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "streamfl.labels" .root | nindent 4 }}
spec:
  serviceName: {{ $name }}
  replicas: {{ .replicas }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "streamfl.labels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  template: {{- include "streamfl.pod" . | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "streamfl.labels" .root | nindent 4 }}
spec:
  {{- if not .http }}
  clusterIP: None
  {{- end }}
  selector:
    {{- include "streamfl.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  ports:
    {{- range $name, $port := .ports }}
    - {name: {{ $name }}, port: {{ $port }}, targetPort: {{ $name }}}
    {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "streamfl.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "streamfl.labels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
{{- end }}
