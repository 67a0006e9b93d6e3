SUMMARY = "Shim between Watchkeeper and TensorRT"
DESCRIPTION = "libwk_trt.so, compiled against the TensorRT of the image; the runtime opens it"
HOMEPAGE = "https://github.com/watchkeeper/watchkeeper"
BUGTRACKER = "https://github.com/watchkeeper/watchkeeper/issues"
SECTION = "libs"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

# The layer lies in the repository of the sources.
FILESEXTRAPATHS:prepend := "${THISDIR}/../../../../..:"
SRC_URI = "file://edge-runtime/trt file://LICENSE"
S = "${UNPACKDIR}"

DEPENDS = "tensorrt-core tensorrt-plugins cuda-cudart"

COMPATIBLE_MACHINE = "(tegra)"
PACKAGE_ARCH = "${MACHINE_ARCH}"

do_configure[noexec] = "1"

do_compile() {
    # CXX carries the options of the machine. With them the compiler searches usr/include by itself;
    # named again, it would hide the C++ headers.
    cuda=$(find "${RECIPE_SYSROOT}/usr/local" -name cuda_runtime_api.h -print -quit)
    "${S}/edge-runtime/trt/build" --headers "$(dirname "$cuda")" --out "${B}"
}

do_install() {
    install -d "${D}${libdir}"
    install -m 0755 "${B}/libwk_trt.so" "${D}${libdir}/libwk_trt.so"
}

# Opened with dlopen by its plain name; it opens TensorRT and CUDA the same way.
FILES:${PN} = "${libdir}/libwk_trt.so"
FILES:${PN}-dev = ""
INSANE_SKIP:${PN} = "dev-so"
RDEPENDS:${PN} = "tensorrt-core tensorrt-plugins cuda-cudart"
