/* Stand-ins for NVIDIA's GStreamer elements of a Jetson, for tests without one.
 *
 * nvv4l2decoder    H.264 and H.265 to NV12 in memory:NVMM, at NVIDIA's rank. It decodes with libav.
 * nvvidconv        NVMM to system memory, and scales.
 * nvarguscamerasrc A test pattern in memory:NVMM.
 *
 * As strict as the originals:
 * - Frames in NVMM link to no element of system memory.
 * - The decoder takes whole access units of a byte stream only.
 * - It drops all frames before the first key frame.
 * - Once frames are reordered without decoding times, it gives no frame any more.
 *
 * Faults, compiled in:
 * -DFAIL_AFTER=N   The decoder reports an error at its Nth frame.
 * -DSILENT         The decoder takes frames and gives none, as in a container without lsmod.
 */
#include <gst/base/gstbasetransform.h>
#include <gst/gst.h>

#define PACKAGE "watchkeeper-tests"
#define NVMM "memory:NVMM"
#define NVMM_NV12 "video/x-raw(memory:NVMM), format=(string)NV12"

/* Moves frames into NVMM or out of it: the same bytes under other caps. */
typedef struct {
  GstBaseTransform parent;
} Move;
typedef struct {
  GstBaseTransformClass parent;
  gboolean into;
} MoveClass;

static GstCaps *set_memory(GstCaps *caps, gboolean nvmm) {
  GstCaps *out = gst_caps_copy(caps);
  for (guint i = 0; i < gst_caps_get_size(out); i++)
    gst_caps_set_features(out, i, nvmm ? gst_caps_features_new(NVMM, NULL) : NULL);
  return out;
}

static GstCaps *move_caps(GstBaseTransform *move, GstPadDirection direction, GstCaps *caps,
                          GstCaps *filter) {
  gboolean into = ((MoveClass *)G_OBJECT_GET_CLASS(move))->into;
  GstCaps *out = set_memory(caps, into == (direction == GST_PAD_SINK));
  if (filter) {
    GstCaps *both = gst_caps_intersect_full(filter, out, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(out);
    out = both;
  }
  return out;
}

static GstFlowReturn move_buffer(GstBaseTransform *move, GstBuffer *buffer) { return GST_FLOW_OK; }

static void move_class_init(gpointer class, gpointer into) {
  GstElementClass *element = class;
  GstBaseTransformClass *transform = class;
  GstCaps *system = gst_caps_from_string("video/x-raw, format=(string)NV12");
  GstCaps *nvmm = gst_caps_from_string(NVMM_NV12);
  ((MoveClass *)class)->into = into != NULL;
  gst_element_class_add_pad_template(
      element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, into ? system : nvmm));
  gst_element_class_add_pad_template(
      element, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, into ? nvmm : system));
  gst_caps_unref(system);
  gst_caps_unref(nvmm);
  gst_element_class_set_static_metadata(element, "Mover", "Filter", "Moves frames", PACKAGE);
  transform->transform_caps = move_caps;
  transform->transform_ip = move_buffer;
}

static GType move_type(const char *name, gboolean into) {
  GTypeInfo info = {
      .class_size = sizeof(MoveClass),
      .class_init = move_class_init,
      .class_data = GINT_TO_POINTER(into),
      .instance_size = sizeof(Move),
  };
  return g_type_register_static(GST_TYPE_BASE_TRANSFORM, name, &info, 0);
}

static GType into_type, out_type;

/* Shows a pad of an element inside a bin as a pad of the bin. */
static void show(GstBin *bin, const char *name, GstElement *element, const char *pad) {
  GstPad *target = gst_element_get_static_pad(element, pad);
  GstPadTemplate *template =
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(bin), name);
  GstPad *ghost = gst_ghost_pad_new_from_template(name, target, template);
  gst_element_add_pad(GST_ELEMENT(bin), ghost);
  gst_object_unref(target);
}

/* nvv4l2decoder */
typedef struct {
  GstBin parent;
  GstElement *decoder, *convert;
  gboolean has_begun, is_reordered;
  GstClockTime highest_pts, last_dts;
  guint frames;
} Decoder;
typedef struct {
  GstBinClass parent;
} DecoderClass;
G_DEFINE_TYPE(Decoder, decoder, GST_TYPE_BIN)

static GstPadProbeReturn take_caps(Decoder *self, GstPad *pad, GstEvent *event) {
  GstCaps *caps;
  gst_event_parse_caps(event, &caps);
  const char *name = gst_structure_get_name(gst_caps_get_structure(caps, 0));
  if (self->decoder)
    return GST_PAD_PROBE_OK;
  self->decoder = gst_element_factory_make(
      g_str_has_suffix(name, "h264") ? "avdec_h264" : "avdec_h265", NULL);
  if (!self->decoder)
    return GST_PAD_PROBE_DROP;
  gst_bin_add(GST_BIN(self), self->decoder);
  gst_element_link(self->decoder, self->convert);
  GstPad *sink = gst_element_get_static_pad(self->decoder, "sink");
  gst_ghost_pad_set_target(GST_GHOST_PAD(pad), sink);
  gst_object_unref(sink);
  gst_element_sync_state_with_parent(self->decoder);
  return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn take(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  Decoder *self = data;
  if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
    return GST_EVENT_TYPE(event) == GST_EVENT_CAPS ? take_caps(self, pad, event)
                                                   : GST_PAD_PROBE_OK;
  }
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  if (!self->has_begun && GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT))
    return GST_PAD_PROBE_DROP;
  self->has_begun = TRUE;
  GstClockTime pts = GST_BUFFER_PTS(buffer), dts = GST_BUFFER_DTS(buffer);
  gboolean has_times = GST_CLOCK_TIME_IS_VALID(dts) && dts <= pts &&
                       (!GST_CLOCK_TIME_IS_VALID(self->last_dts) || self->last_dts <= dts);
  if (GST_CLOCK_TIME_IS_VALID(self->highest_pts) && pts < self->highest_pts) {
    if (!has_times)
      self->is_reordered = TRUE;
  } else {
    self->highest_pts = pts;
  }
  self->last_dts = dts;
  self->frames++;
#ifdef FAIL_AFTER
  if (self->frames == FAIL_AFTER) {
    GST_ELEMENT_ERROR(self, STREAM, DECODE, ("Device failed."), ("NVDEC"));
    return GST_PAD_PROBE_DROP;
  }
  if (self->frames > FAIL_AFTER)
    return GST_PAD_PROBE_DROP;
#endif
  return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn give(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
#ifdef SILENT
  return GST_PAD_PROBE_DROP;
#else
  return ((Decoder *)data)->is_reordered ? GST_PAD_PROBE_DROP : GST_PAD_PROBE_OK;
#endif
}

static void decoder_init(Decoder *self) {
  GstElement *filter = gst_element_factory_make("capsfilter", NULL);
  GstElement *into = g_object_new(into_type, NULL);
  GstCaps *caps = gst_caps_from_string("video/x-raw, format=(string)NV12");
  self->convert = gst_element_factory_make("videoconvert", NULL);
  self->highest_pts = self->last_dts = GST_CLOCK_TIME_NONE;
  g_object_set(filter, "caps", caps, NULL);
  gst_caps_unref(caps);
  gst_bin_add_many(GST_BIN(self), self->convert, filter, into, NULL);
  gst_element_link_many(self->convert, filter, into, NULL);
  show(GST_BIN(self), "src", into, "src");
  GstPad *sink = gst_ghost_pad_new_no_target_from_template(
      "sink", gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "sink"));
  gst_element_add_pad(GST_ELEMENT(self), sink);
  gst_pad_add_probe(sink, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, take,
                    self, NULL);
  GstPad *src = gst_element_get_static_pad(GST_ELEMENT(self), "src");
  gst_pad_add_probe(src, GST_PAD_PROBE_TYPE_BUFFER, give, self, NULL);
  gst_object_unref(src);
}

static void add_template(gpointer class, const char *name, GstPadDirection direction,
                         const char *caps) {
  GstCaps *parsed = gst_caps_from_string(caps);
  gst_element_class_add_pad_template(
      class, gst_pad_template_new(name, direction, GST_PAD_ALWAYS, parsed));
  gst_caps_unref(parsed);
}

static void decoder_class_init(DecoderClass *class) {
  add_template(class, "sink", GST_PAD_SINK,
               "video/x-h264, stream-format=(string)byte-stream, alignment=(string)au; "
               "video/x-h265, stream-format=(string)byte-stream, alignment=(string)au");
  add_template(class, "src", GST_PAD_SRC, NVMM_NV12);
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(class), "NVIDIA v4l2 video decoder",
                                        "Codec/Decoder/Video", "Stand-in", PACKAGE);
}

/* nvvidconv */
typedef struct {
  GstBin parent;
  guint output_buffers;
} Conv;
typedef struct {
  GstBinClass parent;
} ConvClass;
G_DEFINE_TYPE(Conv, conv, GST_TYPE_BIN)

static void conv_set(GObject *object, guint id, const GValue *value, GParamSpec *spec) {
  ((Conv *)object)->output_buffers = g_value_get_uint(value);
}

static void conv_init(Conv *self) {
  GstElement *out = g_object_new(out_type, NULL);
  GstElement *scale = gst_element_factory_make("videoscale", NULL);
  gst_bin_add_many(GST_BIN(self), out, scale, NULL);
  gst_element_link(out, scale);
  show(GST_BIN(self), "sink", out, "sink");
  show(GST_BIN(self), "src", scale, "src");
}

static void conv_class_init(ConvClass *class) {
  add_template(class, "sink", GST_PAD_SINK, NVMM_NV12);
  add_template(class, "src", GST_PAD_SRC, "video/x-raw, format=(string)NV12");
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(class), "NvVidConv Plugin",
                                        "Filter/Converter/Video/Scaler", "Stand-in", PACKAGE);
  G_OBJECT_CLASS(class)->set_property = conv_set;
  g_object_class_install_property(
      G_OBJECT_CLASS(class), 1,
      g_param_spec_uint("output-buffers", "Buffers", "Number of output buffers", 1, G_MAXUINT, 4,
                        G_PARAM_WRITABLE));
}

/* nvarguscamerasrc */
typedef struct {
  GstBin parent;
} Camera;
typedef struct {
  GstBinClass parent;
} CameraClass;
G_DEFINE_TYPE(Camera, camera, GST_TYPE_BIN)

static void camera_set(GObject *object, guint id, const GValue *value, GParamSpec *spec) {}

static void camera_init(Camera *self) {
  GstElement *pattern = gst_element_factory_make("videotestsrc", NULL);
  GstElement *into = g_object_new(into_type, NULL);
  g_object_set(pattern, "is-live", TRUE, NULL);
  gst_bin_add_many(GST_BIN(self), pattern, into, NULL);
  gst_element_link(pattern, into);
  show(GST_BIN(self), "src", into, "src");
}

static void camera_class_init(CameraClass *class) {
  add_template(class, "src", GST_PAD_SRC, NVMM_NV12);
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(class), "NvArgusCameraSrc",
                                        "Video/Capture", "Stand-in", PACKAGE);
  G_OBJECT_CLASS(class)->set_property = camera_set;
  g_object_class_install_property(
      G_OBJECT_CLASS(class), 1,
      g_param_spec_int("sensor-id", "Sensor", "Number of the sensor", 0, 255, 0,
                       G_PARAM_WRITABLE));
}

static gboolean init(GstPlugin *plugin) {
  into_type = move_type("NvmmInto", TRUE);
  out_type = move_type("NvmmOut", FALSE);
  return gst_element_register(plugin, "nvv4l2decoder", GST_RANK_PRIMARY + 11, decoder_get_type()) &&
         gst_element_register(plugin, "nvvidconv", GST_RANK_PRIMARY + 11, conv_get_type()) &&
         gst_element_register(plugin, "nvarguscamerasrc", GST_RANK_PRIMARY, camera_get_type());
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, nvmm, "Stand-ins for a Jetson", init,
                  "1.0", "LGPL", PACKAGE, "https://example.invalid")
